/** Knows each kind of task: its own keys, and those that all tasks have. */

import type { Catalogue } from '../checker.ts'
import { callTasks } from './calls.ts'
import { EXPRESSION, variable } from './values.ts'
import { either, flag, list, mapping, namedList, ref, type Schema, THEN, text, word } from './words.ts'

/** The keys of one kind; those that are required name it. */
interface Kind {
  readonly keys: Readonly<Record<string, Schema>>
  readonly required: readonly string[]
}

const COMMON: Readonly<Record<string, Schema>> = {
  if: ref('condition', 'The task is skipped where this does not hold. `.` is the data that comes in.'),
  input: ref('input'),
  output: ref('output'),
  export: ref('export'),
  timeout: ref('timeout'),
  [THEN]: ref('directive'),
  metadata: {
    description: 'Whatever the author likes; `tenon` is for the platform.',
    type: 'object',
    properties: {
      tenon: {
        description: 'How the platform does the task.',
        type: 'object',
        properties: {
          local: {
            description:
              'Whether a call that may be made twice is made beside the run, which is where it is if nothing is said.',
            type: 'boolean',
          },
        },
        additionalProperties: false,
      },
    },
    additionalProperties: true,
  },
  compensate: ref(
    'tasks',
    'Tasks that undo this one once it has completed, where the flow comes to nothing.',
  ),
  onFault: word(
    'What becomes of the task where it faults: it fails, or waits for somebody to decide.',
    ['fail', 'hold'],
    true,
  ),
}

const count = (description: string, maximum: number): Schema => ({
  description,
  type: 'integer',
  minimum: 1,
  maximum,
})

const LOOP = mapping(
  'What the tasks are run for.',
  {
    each: variable('The variable that has the item.', 'item'),
    in: either(
      'The items.',
      text('An expression that yields an array.', { examples: ['.lines'] }),
      list('The items themselves.', { type: 'object' }),
    ),
    at: variable('The variable that has the number of the item, from 0.', 'index'),
    concurrency: count(
      'How many are run at the same time; one after the other where nothing is said.',
      1_000,
    ),
    onError: word(
      'What an iteration that faults does: it faults the task, or yields its error.',
      ['fail', 'continue'],
      true,
    ),
  },
  ['in'],
)

const CASE = mapping(
  'A case.',
  {
    when: ref('condition', 'Taken where this holds. The case without it is the default.'),
    [THEN]: ref('directive'),
  },
  [THEN],
)

const FLOW_NAME = { pattern: '^[\\w.+-]{1,128}$' }

const RUN = mapping(
  'What is run.',
  {
    workflow: mapping(
      'Another flow.',
      {
        namespace: text('The namespace of the flow.', FLOW_NAME),
        name: text('The name of the flow.', FLOW_NAME),
        version: text('Its version.', { ...FLOW_NAME, default: 'latest' }),
        input: either('Its input.', { type: 'object' }, EXPRESSION),
      },
      ['namespace', 'name'],
    ),
    await: { description: 'Whether the task lasts as long as the flow that it runs.', ...flag(true) },
    return: word(
      'What the task yields: the output of the flow (stdout), or nothing.',
      ['stdout', 'none'],
      true,
    ),
  },
  ['workflow'],
)

const APPROVE: Schema = {
  ...mapping(
    'Waits for people to decide.',
    {
      title: text('What is to be decided, for people.'),
      form: ref('jsonSchema', 'What must come with a decision.'),
      approvers: either(
        'Who may decide.',
        list('Names; each may be an expression.', text('A name.', { pattern: '\\S' }), { minItems: 1 }),
        text('An expression that yields a list of names.'),
      ),
      quorum: { ...count('How many must approve.', 100), default: 1 },
      deadline: ref('duration', 'How long there is to decide.'),
      fourEyes: { description: 'Whoever started the run may not decide.', ...flag(true) },
      onDeadline: word('What becomes of it when the time is over.', ['fault', 'reject', 'approve'], true),
      onReject: word('What a rejection is: an output, or an error.', ['continue', 'fault'], true),
    },
    ['approvers'],
  ),
  dependentRequired: { onDeadline: ['deadline'] },
}

const KINDS: readonly Kind[] = [
  { keys: { approve: APPROVE }, required: ['approve'] },
  { keys: { do: ref('tasks', 'Runs tasks, one after the other.') }, required: ['do'] },
  {
    keys: { emit: mapping('Publishes an event.', { event: ref('event') }, ['event']) },
    required: ['emit'],
  },
  {
    keys: {
      for: LOOP,
      while: ref('condition', 'Asked before each iteration; where it does not hold, the loop ends.'),
      do: ref('tasks', 'Runs tasks for each item.'),
    },
    required: ['for', 'do'],
  },
  {
    keys: {
      fork: mapping(
        'Runs branches at the same time.',
        {
          branches: ref('tasks', 'A branch each; the output is the list of theirs.'),
          compete: {
            description: 'The first to end gives the output; the others are cancelled.',
            ...flag(false),
          },
        },
        ['branches'],
      ),
    },
    required: ['fork'],
  },
  {
    keys: {
      listen: mapping('Waits for events.', { to: ref('listenTo'), read: ref('read') }, ['to']),
      foreach: ref('foreach'),
    },
    required: ['listen'],
  },
  {
    keys: {
      raise: mapping(
        'Ends in an error.',
        {
          error: either('The error.', ref('error'), text('The name of an error under `use.errors`.')),
        },
        ['error'],
      ),
    },
    required: ['raise'],
  },
  { keys: { run: RUN }, required: ['run'] },
  {
    keys: { set: either('The output, with expressions in it.', { type: 'object' }, EXPRESSION) },
    required: ['set'],
  },
  { keys: { switch: namedList('Goes where the first case that holds says.', CASE) }, required: ['switch'] },
  {
    keys: { try: ref('tasks', 'Tasks whose errors are caught.'), catch: ref('catch') },
    required: ['try', 'catch'],
  },
  { keys: { wait: ref('duration', 'Lets time pass.') }, required: ['wait'] },
]

/** `tasks` is a list of them, `task` one of any kind. */
export function taskSchemas(catalogue: Catalogue): Record<string, Schema> {
  const kinds = [...callTasks(catalogue), ...KINDS]
  const task = either('A task: the keys of one kind, and those that all tasks have.', ...kinds.map(taskOf))
  const names = { minLength: 1, not: { enum: ['continue', 'exit', 'end'] } }
  return { tasks: namedList('Tasks, one after the other, each with its name.', ref('task'), names), task }
}

/** Editors show the title where they offer one kind among others. */
function taskOf({ keys, required }: Kind): Schema {
  const [kind = ''] = required
  const called = keys['call']?.['const']
  return {
    title: called === undefined ? kind : `${kind}: ${String(called)}`,
    type: 'object',
    properties: { ...keys, ...COMMON },
    required: [...required],
    additionalProperties: false,
  }
}
