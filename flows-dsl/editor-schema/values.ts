// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions show how expressions are written
/** Knows the values that stand in many places of a definition: expressions, durations, names, shapes of data. */

import { either, list, mapping, ref, type Schema, text, word } from './words.ts'

/** A string with an expression in it. */
export const EXPRESSION: Schema = { type: 'string', pattern: '\\$\\{' }

/** Names of variables that the language has itself. */
const RESERVED = ['context', 'input', 'output', 'task', 'workflow', 'runtime', 'secrets', 'authorization']

/** The name of a variable, without `$`. */
export const variable = (description: string, fallback: string): Schema => ({
  ...text(description, { pattern: '^[A-Za-z_][A-Za-z0-9_]*$', default: fallback }),
  not: { enum: RESERVED },
})

const count = (unit: string): Schema => ({ description: `Number of ${unit}.`, type: 'integer', minimum: 0 })

export const VALUES: Readonly<Record<string, Schema>> = {
  condition: either(
    'An expression of jq, with or without ${ }; what it yields counts as true unless it is false or null.',
    { type: 'boolean' },
    text('An expression of jq.', { examples: ['.total > 100', '${ .status == "open" }'] }),
  ),
  filter: {
    description:
      'An expression of jq, with or without ${ }, or any value with expressions in it: strings in ${ }.',
  },
  duration: either(
    'A span of time: {seconds: 2}, or an ISO 8601 duration of weeks, days and time, such as PT2S or P1DT12H.',
    mapping('The sum of its parts.', {
      days: count('days'),
      hours: count('hours'),
      minutes: count('minutes'),
      seconds: count('seconds'),
      milliseconds: count('milliseconds'),
    }),
    text('An ISO 8601 duration without years and months.', {
      pattern: '^P(?=.)(?:\\d+W)?(?:\\d+D)?(?:T(?=.)(?:\\d+H)?(?:\\d+M)?(?:\\d+(?:\\.\\d{1,3})?S)?)?$',
      examples: ['PT30S', 'PT5M', 'P1DT12H'],
    }),
  ),
  timeout: either(
    'How long it may last: then it ends in an error of the type timeout.',
    mapping('A timeout.', { after: ref('limit') }, ['after']),
    text('The name of a timeout under `use.timeouts`.'),
  ),
  limit: either('A duration, or an expression that yields one.', ref('duration'), EXPRESSION),
  directive: either(
    'Where to go next: on (`continue`), out of this list (`exit`), to the end of the flow (`end`), or to a task here.',
    { enum: ['continue', 'exit', 'end'], default: 'continue' },
    text('The name of a task in the same list.'),
  ),
  schema: mapping(
    'A JSON Schema that data must fit, or the task ends in an error of the type validation.',
    {
      format: word('The format of the schema.', ['json', 'json:2020-12'], true),
      document: ref('jsonSchema', 'The schema itself.'),
    },
    ['document'],
  ),
  input: mapping('What is done with the data that comes in.', {
    schema: ref('schema', 'What the data must fit before anything else is done with it.'),
    from: ref('filter', 'Makes the input of the data that comes in. `.` is that data.'),
  }),
  output: mapping('What is done with the data that goes out.', {
    as: ref('filter', 'Makes the output of what was yielded. `.` is what was yielded.'),
    schema: ref('schema', 'What the output must fit.'),
  }),
  export: mapping('What is kept in `$context`, which all later tasks see.', {
    as: ref('filter', 'Replaces `$context`. `.` is the output of the task.'),
    schema: ref('schema', 'What the new `$context` must fit.'),
  }),
  strings: list('Strings.', { type: 'string' }),
}
