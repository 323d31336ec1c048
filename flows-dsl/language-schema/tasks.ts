/** The part of the JSON Schema for editors that describes tasks, errors and events. The compiler does not use it. */

import type { Catalogue } from '../compile/compile-context.ts'
import { ON_FAULT } from '../compile/task-list.ts'
import { ON_DEADLINE, ON_REJECT, QUORUM_MAX } from '../tasks/approve.ts'
import { ATTRIBUTE } from '../tasks/event-filters.ts'
import { ITERATIONS_MAX, ON_ERROR } from '../tasks/for.ts'
import { POINTER } from '../tasks/raise.ts'
import { FLOW_NAME } from '../tasks/run.ts'
import { callTasks } from './calls.ts'
import {
  EXPRESSION,
  either,
  flag,
  integer,
  list,
  mapping,
  mappingRequiring,
  named,
  namedList,
  ref,
  type Schema,
  type TaskKeys,
  THEN,
  text,
  variable,
  word,
} from './values.ts'

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
    ON_FAULT,
  ),
}

const LOOP = mappingRequiring('What the tasks are run for.', ['in'], {
  each: variable('The variable that has the item.', 'item'),
  in: either(
    'The items.',
    text('An expression that yields an array.', { examples: ['.lines'] }),
    list('The items themselves.', { type: 'object' }),
  ),
  at: variable('The variable that has the number of the item, from 0.', 'index'),
  concurrency: integer('How many are run at the same time; one after the other where nothing is said.', {
    minimum: 1,
    maximum: ITERATIONS_MAX,
  }),
  onError: word('What an iteration that faults does: it faults the task, or yields its error.', ON_ERROR),
})

const CASE = mappingRequiring('A case.', [THEN], {
  when: ref('condition', 'Taken where this holds. The case without it is the default.'),
  [THEN]: ref('directive'),
})

const RUN = mappingRequiring('What is run.', ['workflow'], {
  workflow: mappingRequiring('Another flow.', ['namespace', 'name'], {
    namespace: text('The namespace of the flow.', { pattern: FLOW_NAME }),
    name: text('The name of the flow.', { pattern: FLOW_NAME }),
    version: text('Its version.', { pattern: FLOW_NAME, default: 'latest' }),
    input: either('Its input.', { type: 'object' }, EXPRESSION),
  }),
  await: flag('Whether the task lasts as long as the flow that it runs.', true),
  return: word('What the task yields: the output of the flow (stdout), or nothing.', ['stdout', 'none']),
})

const APPROVE: Schema = {
  ...mappingRequiring('Waits for people to decide.', ['approvers'], {
    title: text('What is to be decided, for people.'),
    form: ref('jsonSchema', 'What must come with a decision.'),
    approvers: either(
      'Who may decide.',
      list('Names; each may be an expression.', text('A name.', { pattern: '\\S' }), { minItems: 1 }),
      text('An expression that yields a list of names.'),
    ),
    quorum: integer('How many must approve.', { minimum: 1, maximum: QUORUM_MAX, default: 1 }),
    deadline: ref('duration', 'How long there is to decide.'),
    fourEyes: flag('Whoever started the run may not decide.', true),
    onDeadline: word('What becomes of it when the time is over.', ON_DEADLINE),
    onReject: word('What a rejection is: an output, or an error.', ON_REJECT),
  }),
  dependentRequired: { onDeadline: ['deadline'] },
}

/** @param required by default the first key */
const kind = (
  keys: Readonly<Record<string, Schema>>,
  required: readonly string[] = Object.keys(keys).slice(0, 1),
): TaskKeys => ({ keys, required })

const KINDS: readonly TaskKeys[] = [
  kind({ approve: APPROVE }),
  kind({ do: ref('tasks', 'Runs tasks, one after the other.') }),
  kind({ emit: mappingRequiring('Publishes an event.', ['event'], { event: ref('event') }) }),
  kind(
    {
      for: LOOP,
      while: ref('condition', 'Asked before each iteration; where it does not hold, the loop ends.'),
      do: ref('tasks', 'Runs tasks for each item.'),
    },
    ['for', 'do'],
  ),
  kind({
    fork: mappingRequiring('Runs branches at the same time.', ['branches'], {
      branches: ref('tasks', 'A branch each; the output is the list of theirs.'),
      compete: flag('The first to end gives the output; the others are cancelled.', false),
    }),
  }),
  kind({
    listen: mappingRequiring('Waits for events.', ['to'], { to: ref('listenTo'), read: ref('read') }),
    foreach: ref('foreach'),
  }),
  kind({
    raise: mappingRequiring('Ends in an error.', ['error'], {
      error: either('The error.', ref('error'), text('The name of an error under `use.errors`.')),
    }),
  }),
  kind({ run: RUN }),
  kind({ set: either('The output, with expressions in it.', { type: 'object' }, EXPRESSION) }),
  kind({ switch: namedList('Goes where the first case that holds says.', CASE) }),
  kind({ try: ref('tasks', 'Tasks whose errors are caught.'), catch: ref('catch') }, ['try', 'catch']),
  kind({ wait: ref('duration', 'Lets time pass.') }),
]

/** `tasks` is a list of them, `task` one of any kind. */
export function taskSchemas(catalogue: Catalogue): Record<string, Schema> {
  const kinds = [...callTasks(catalogue), ...KINDS]
  const task = either('A task: the keys of one kind, and those that all tasks have.', ...kinds.map(taskOf))
  const names = { minLength: 1, not: { enum: ['continue', 'exit', 'end'] } }
  return { tasks: namedList('Tasks, one after the other, each with its name.', ref('task'), names), task }
}

/** The schema of one task type. Editors show its title if they offer several types. */
function taskOf({ keys, required }: TaskKeys): Schema {
  const [name = ''] = required
  const called = keys['call']?.['const']
  return {
    title: called === undefined ? name : `${name}: ${String(called)}`,
    type: 'object',
    properties: { ...keys, ...COMMON },
    required: [...required],
    additionalProperties: false,
  }
}

/** A literal string: the value is compared and never evaluated. */
const plain = (description: string): Schema => ({ ...text(description), not: EXPRESSION })

const NOTHING = { type: 'object', maxProperties: 0 }

const CONDITIONS = {
  when: ref('condition', 'Only where this holds.'),
  exceptWhen: ref('condition', 'Only where this does not hold.'),
}

const POLICY = mapping('How an attempt is made again.', {
  ...CONDITIONS,
  delay: ref('duration', 'The wait before a retry; none where nothing is said.'),
  backoff: {
    ...mapping('How the wait grows: not at all, by the delay each time, or doubled each time.', {
      constant: { description: 'The delay as it is.', ...NOTHING },
      linear: { description: 'The delay times the number of the retry.', ...NOTHING },
      exponential: { description: 'The delay doubled with each retry.', ...NOTHING },
    }),
    minProperties: 1,
    maxProperties: 1,
  },
  limit: mapping('When to stop.', {
    attempt: mapping('Of attempts.', {
      count: integer('How often at most, after the first attempt.', { minimum: 1 }),
      duration: ref('duration', 'How long each attempt may last, the first included.'),
    }),
    duration: ref('duration', 'From the start of the first attempt to the start of the last.'),
  }),
  jitter: mappingRequiring('A time between these two is added to each wait.', ['from', 'to'], {
    from: ref('duration', 'At least this.'),
    to: ref('duration', 'At most this.'),
  }),
})

export const ERRORS: Readonly<Record<string, Schema>> = {
  error: mappingRequiring('An error (RFC 7807).', ['type', 'status'], {
    type: either(
      'A URI that says what kind of error it is.',
      { type: 'string', pattern: '^\\S+$' },
      EXPRESSION,
    ),
    status: integer('The status, as in HTTP.'),
    title: text('What all errors of this type have in common, for people.'),
    detail: text('What happened this time, for people.'),
    instance: either(
      'The JSON pointer of what it comes from; that of the task where nothing is said.',
      { type: 'string', pattern: POINTER },
      EXPRESSION,
    ),
  }),
  retryPolicy: POLICY,
  catch: mapping('Which errors are caught, and what is done about them.', {
    errors: mapping('Errors that have all of these fields.', {
      with: {
        ...mapping('Fields as they must be.', {
          type: plain('The type of the error.'),
          status: integer('The status of the error.'),
          title: plain('The title of the error.'),
          detail: plain('The detail of the error.'),
          instance: plain('The JSON pointer of the task that faulted.'),
        }),
        minProperties: 1,
      },
    }),
    as: variable('The variable that has the error.', 'error'),
    ...CONDITIONS,
    retry: either(
      'Whether and how the tasks are run again.',
      ref('retryPolicy'),
      text('The name of a retry under `use.retries`.'),
    ),
    do: ref('tasks', 'Tasks that handle the error.'),
    [THEN]: ref('directive', 'Where to go after an error that was caught.'),
  }),
}

const ATTRIBUTES: Readonly<Record<string, string>> = {
  type: 'What kind of event it is.',
  source: 'Where it comes from; the flow where nothing is said.',
  subject: 'What it is about.',
  datacontenttype: 'The media type of the data.',
  dataschema: 'The URI of the schema of the data.',
  id: 'Its id, unique with the source; made of the run and the task where nothing is said.',
  time: 'When it happened; now where nothing is said.',
}

const attributes = (more: Schema): Record<string, Schema> =>
  Object.fromEntries(Object.entries(ATTRIBUTES).map(([key, description]) => [key, text(description, more)]))

const MODES: Readonly<Record<string, Schema>> = {
  one: ref('eventFilter', 'One event.'),
  any: list('Events of any of these; without any, every event.', ref('eventFilter')),
  all: list('One event of each of these.', ref('eventFilter'), { minItems: 1 }),
}

/** Exactly one of the three. */
const strategy = (description: string, more: Readonly<Record<string, Schema>> = {}): Schema => ({
  ...mapping(description, { ...MODES, ...more }),
  oneOf: Object.keys(MODES).map((key) => ({ required: [key] })),
})

export const EVENTS: Readonly<Record<string, Schema>> = {
  event: mappingRequiring('An event (CloudEvents 1.0).', ['with'], {
    with: mappingRequiring('The attributes of the event; each may be an expression.', ['type'], {
      ...attributes({ minLength: 1 }),
      data: ref('filter', 'What it carries.'),
    }),
  }),
  eventFilter: mappingRequiring('Which events are meant.', ['with'], {
    with: {
      description:
        'Attributes and what they must be; an expression yields the value, or says whether it fits.',
      type: 'object',
      properties: { ...attributes({}), data: ref('filter', 'What the data must be.') },
      propertyNames: { pattern: ATTRIBUTE },
      minProperties: 1,
    },
    correlate: named(
      'Values that events that belong together share.',
      mappingRequiring('One such value.', ['from'], {
        from: ref('condition', 'Reads the value from the event.'),
        expect: ref('filter', 'What it must be; without it, what it was in the first event.'),
      }),
    ),
  }),
  events: strategy('One event, any of several, or one of each.'),
  listenTo: {
    ...strategy('One event, any of several, or one of each.', {
      until: either(
        'When `any` has enough: a condition, asked after each event, or events that end it.',
        ref('condition'),
        strategy('Events that end it; they are no part of the output.', { until: { const: false } }),
      ),
    }),
    dependentRequired: { until: ['any'] },
  },
  read: word('How events are read: their data, or with their attributes.', ['data', 'envelope', 'raw']),
  foreach: mapping('What is done with each event, one after the other.', {
    item: variable('The variable that has the event.', 'item'),
    at: variable('The variable that has its number, from 0.', 'index'),
    do: ref('tasks', 'Tasks that are run for each event.'),
    output: mapping('What is kept of it.', {
      as: ref('filter', 'Makes the output of what the tasks yielded.'),
    }),
    export: mapping('What is kept in `$context`.', { as: ref('filter', 'Replaces `$context`.') }),
  }),
}
