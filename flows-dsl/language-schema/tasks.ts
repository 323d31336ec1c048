/** The part of the JSON Schema for editors that describes tasks, errors and events. The compiler does not use it. */

import type { Catalogue } from '../compile/compile-context.ts'
import { ON_FAULT } from '../compile/task-list.ts'
import { SHORT_TYPE, SHORT_TYPES } from '../errors.ts'
import { ON_DEADLINE, ON_REJECT, QUORUM_MAX } from '../tasks/approve.ts'
import { ATTRIBUTE } from '../tasks/event-filters.ts'
import { ITERATIONS_MAX, ON_ERROR } from '../tasks/for.ts'
import { POINTER } from '../tasks/raise.ts'
import { FLOW_NAME } from '../tasks/run.ts'
import { TIME } from '../tasks/wait.ts'
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
  if: ref('condition', 'The task is skipped if this is false. `.` is the raw input of the task.'),
  input: ref('input'),
  output: ref('output'),
  export: ref('export'),
  timeout: ref('timeout'),
  [THEN]: ref('directive'),
  metadata: {
    description: 'Any data of the author; `tenon` is for the platform.',
    type: 'object',
    properties: {
      tenon: {
        description: 'Options of the platform.',
        type: 'object',
        properties: {
          local: {
            description:
              'If false, the call is always an activity. Default: a call that may be repeated is a local activity, which is faster.',
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
    'Tasks that undo this task, if it has completed and the flow faults or is cancelled.',
  ),
  onFault: word('The policy for a task that faults: it fails, or waits for an operator to decide.', ON_FAULT),
}

const LOOP = mappingRequiring('The items of the loop.', ['in'], {
  each: variable('The name of the variable that holds the item.', 'item'),
  in: either(
    'The items.',
    text('An expression that yields an array.', { examples: ['.lines'] }),
    list('The items themselves.', { type: 'object' }),
  ),
  at: variable('The name of the variable that holds the index of the item, from 0.', 'index'),
  concurrency: integer('The maximum of concurrent iterations. Default: 1.', {
    minimum: 1,
    maximum: ITERATIONS_MAX,
  }),
  onError: word(
    'The policy for an iteration that faults: it faults the task, or its output is the error.',
    ON_ERROR,
  ),
})

const CASE = mappingRequiring('A case.', [THEN], {
  when: ref(
    'condition',
    'The case is taken if this is true. A case without `when` applies if no other case does.',
  ),
  [THEN]: ref('directive'),
})

const RUN = mappingRequiring('The process to run.', ['workflow'], {
  workflow: mappingRequiring('Another flow.', ['namespace', 'name'], {
    namespace: text('The namespace of the flow.', { pattern: FLOW_NAME }),
    name: text('The name of the flow.', { pattern: FLOW_NAME }),
    version: text('The version of the flow.', { pattern: FLOW_NAME, default: 'latest' }),
    input: either('The input of the flow.', { type: 'object' }, EXPRESSION),
  }),
  await: flag('If true, the task waits until the flow ends.', true),
  return: word('The output of the task: that of the flow (stdout), or null (none).', ['stdout', 'none']),
})

const APPROVERS = either(
  'Subjects, e-mail addresses, `role:…` or `group:…` that may decide.',
  list('Names; each may be an expression.', text('The name.', { pattern: '\\S' }), { minItems: 1 }),
  text('An expression that yields a list of names.'),
)

const APPROVE: Schema = {
  ...mappingRequiring('Waits for people to decide.', ['approvers'], {
    title: text('The question, for people.'),
    form: ref('jsonSchema', 'The schema of the form that a decision includes.'),
    approvers: APPROVERS,
    quorum: integer('The number of approvals that are required.', {
      minimum: 1,
      maximum: QUORUM_MAX,
      default: 1,
    }),
    deadline: ref('dynamicDuration', 'The time in which to decide.'),
    remind: mapping('The reminders of approvers.', {
      every: ref('duration', 'The interval of the reminders.'),
    }),
    escalate: mappingRequiring('Further approvers.', ['after', 'to'], {
      after: ref('duration', 'The time after which they may decide as well.'),
      to: APPROVERS,
    }),
    fourEyes: flag('If true, the subject that started the execution may not decide.', true),
    onDeadline: word('The policy for an approval that is undecided at the deadline.', ON_DEADLINE),
    onReject: word('The result of a rejection: an output, or an error.', ON_REJECT),
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
      while: ref(
        'condition',
        'A condition that is tested before each iteration; the loop ends if it is false.',
      ),
      do: ref('tasks', 'Runs tasks for each item.'),
    },
    ['for', 'do'],
  ),
  kind({
    fork: mappingRequiring('Runs branches at the same time.', ['branches'], {
      branches: ref('tasks', 'The branches, one task each. The output is the list of their outputs.'),
      compete: flag(
        'If true, the first branch to complete gives the output, and the others are cancelled.',
        false,
      ),
    }),
  }),
  kind({
    listen: mappingRequiring('Waits for events.', ['to'], { to: ref('listenTo'), read: ref('read') }),
    foreach: ref('foreach'),
  }),
  kind({
    raise: mappingRequiring('Faults with an error.', ['error'], {
      error: either('The error.', ref('error'), text('The name of an error under `use.errors`.')),
    }),
  }),
  kind({ run: RUN }),
  kind({ set: either('The output; it may contain expressions.', { type: 'object' }, EXPRESSION) }),
  kind({ switch: namedList('Follows the directive of the first case that is true.', CASE) }),
  kind({ try: ref('tasks', 'Tasks whose errors are caught.'), catch: ref('catch') }, ['try', 'catch']),
  kind({
    wait: either(
      'Waits for a duration, or until a time.',
      ref('dynamicDuration'),
      mappingRequiring('Waits until a time.', ['until'], {
        until: either(
          'A date and time with an offset (RFC 3339), or an expression that yields one.',
          text('A time.', { pattern: TIME }),
          EXPRESSION,
        ),
      }),
    ),
  }),
]

/** `tasks` is a list of them, `task` one of any kind. */
export function taskSchemas(catalogue: Catalogue): Record<string, Schema> {
  const kinds = [...callTasks(catalogue), ...KINDS]
  const task = either(
    'A task: the keys of one task type, and those that all tasks have.',
    ...kinds.map(taskOf),
  )
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
  when: ref('condition', 'Applies only if this is true.'),
  exceptWhen: ref('condition', 'Applies only if this is false.'),
}

const POLICY = mapping('A retry policy.', {
  ...CONDITIONS,
  delay: ref('dynamicDuration', 'The delay before a retry. Default: none.'),
  backoff: {
    ...mapping('The growth of the delay: none, linear or exponential.', {
      constant: { description: 'The delay is always the same.', ...NOTHING },
      linear: { description: 'The delay is multiplied by the number of the retry.', ...NOTHING },
      exponential: { description: 'The delay doubles with each retry.', ...NOTHING },
    }),
    minProperties: 1,
    maxProperties: 1,
  },
  limit: mapping('The limits of retries.', {
    attempt: mapping('Limits of attempts.', {
      count: integer('The maximum of retries after the first attempt.', { minimum: 1 }),
      duration: ref('dynamicDuration', 'The maximum duration of each attempt, including the first.'),
    }),
    duration: ref(
      'dynamicDuration',
      'The maximum time from the start of the first attempt to the start of the last.',
    ),
  }),
  jitter: mappingRequiring('A random time in this range is added to each delay.', ['from', 'to'], {
    from: ref('dynamicDuration', 'The minimum.'),
    to: ref('dynamicDuration', 'The maximum.'),
  }),
})

export const ERRORS: Readonly<Record<string, Schema>> = {
  error: mappingRequiring('An error (RFC 7807).', ['type', 'status'], {
    type: either(
      'The type of the error: a URI, or the short name of a standard type.',
      { enum: [...SHORT_TYPES] },
      { type: 'string', pattern: '^\\S+$', not: { pattern: SHORT_TYPE } },
      EXPRESSION,
    ),
    status: integer('The status, as in HTTP.'),
    title: text('A summary of the error type, for people.'),
    detail: text('An explanation of this occurrence, for people.'),
    instance: either(
      'The JSON pointer of the origin of the error. Default: the pointer of the task.',
      { type: 'string', pattern: POINTER },
      EXPRESSION,
    ),
  }),
  retryPolicy: POLICY,
  catch: mapping('The errors that are caught, and their handling.', {
    errors: mapping('Errors that have all of these fields.', {
      with: {
        ...mapping('The required values of fields.', {
          type: {
            ...plain('The type of the error: a URI, or the short name of a standard type.'),
            anyOf: [{ enum: [...SHORT_TYPES] }, { not: { pattern: SHORT_TYPE } }],
          },
          status: integer('The status of the error.'),
          title: plain('The title of the error.'),
          detail: plain('The detail of the error.'),
          instance: plain('The JSON pointer of the task that faulted.'),
        }),
        minProperties: 1,
      },
    }),
    as: variable('The name of the variable that holds the error.', 'error'),
    ...CONDITIONS,
    retry: either(
      'The retry policy of the tasks. Default: no retries.',
      ref('retryPolicy'),
      text('The name of a retry policy under `use.retries`.'),
    ),
    do: ref('tasks', 'Tasks that handle the error.'),
    [THEN]: ref('directive', 'The flow directive after an error that was caught.'),
  }),
}

const ATTRIBUTES: Readonly<Record<string, string>> = {
  type: 'The type of the event.',
  source: 'The source of the event. Default: the flow.',
  subject: 'The subject of the event.',
  datacontenttype: 'The media type of the data.',
  dataschema: 'The URI of the schema of the data.',
  id: 'The id of the event, unique together with the source. Default: derived from the execution and the task.',
  time: 'The time of the event. Default: the current time.',
}

const attributes = (more: Schema): Record<string, Schema> =>
  Object.fromEntries(Object.entries(ATTRIBUTES).map(([key, description]) => [key, text(description, more)]))

const MODES: Readonly<Record<string, Schema>> = {
  one: ref('eventFilter', 'One event.'),
  any: list('Events that match any of these filters; an empty list matches every event.', ref('eventFilter')),
  all: list('One event for each of these filters.', ref('eventFilter'), { minItems: 1 }),
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
      data: ref('filter', 'The data of the event.'),
    }),
  }),
  eventFilter: mappingRequiring('A filter of events.', ['with'], {
    with: {
      description:
        'The required values of attributes. An expression yields the value, or a boolean: true matches.',
      type: 'object',
      properties: { ...attributes({}), data: ref('filter', 'The required value of the data.') },
      propertyNames: { pattern: ATTRIBUTE },
      minProperties: 1,
    },
    correlate: named(
      'Values that correlated events share, by name.',
      mappingRequiring('A correlation value.', ['from'], {
        from: ref('condition', 'Reads the value from the event.'),
        expect: ref('filter', 'The expected value. Default: the value of the first event.'),
      }),
    ),
  }),
  events: strategy('One event, any of several, or one of each.'),
  listenTo: {
    ...strategy('One event, any of several, or one of each.', {
      until: either(
        'Ends the wait for `any`: a condition that is tested after each event, or events.',
        ref('condition'),
        strategy('Events that end the wait. They are not part of the output.', { until: { const: false } }),
      ),
    }),
    dependentRequired: { until: ['any'] },
  },
  read: word('The part of an event that is read: its data, the whole event, or its data as text.', [
    'data',
    'envelope',
    'raw',
  ]),
  foreach: mapping('The handling of each event, one after the other.', {
    item: variable('The name of the variable that holds the event.', 'item'),
    at: variable('The name of the variable that holds the index of the event, from 0.', 'index'),
    do: ref('tasks', 'Tasks that run for each event.'),
    output: mapping('The output for each event.', {
      as: ref('filter', 'The expression of the output. `.` is the raw output of the tasks.'),
    }),
    export: mapping('The data that is kept in `$context`.', {
      as: ref('filter', 'The expression of the new `$context`.'),
    }),
  }),
}
