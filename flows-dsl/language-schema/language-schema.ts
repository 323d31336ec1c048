// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions show how expressions are written
/** The flow language as JSON Schema 2020-12, for completion and checks in editors. The compiler does not use it. */

import type { Catalogue } from '../compile/compile-context.ts'
import { CONCURRENCY_MAX, ON_LIMIT } from '../compile/concurrency.ts'
import { CRON_CHARS_MAX } from '../compile/cron.ts'
import { EXPECTATIONS, SEMVER, TASKS_MAX } from '../compile/definition.ts'
import { CLOCK_OPTIONS, CRONS_MAX, OVERLAPS, TRIGGERS } from '../compile/schedule.ts'
import { ON_FAULT } from '../compile/task-list.ts'
import {
  SECRET_HEADER,
  WEBHOOK_ALGORITHMS,
  WEBHOOK_CHALLENGE,
  WEBHOOK_ENCODINGS,
  WEBHOOK_HEADER,
  WEBHOOK_HEADERS_MAX,
  WEBHOOK_INCLUDES,
  WEBHOOK_NAME,
  WEBHOOK_PREFIX,
  WEBHOOK_RESPONSES,
  WEBHOOK_SCHEMES,
  WEBHOOKS_MAX,
} from '../compile/webhooks.ts'
import { objectOf } from '../json.ts'
import { TASKS } from '../tasks/index.ts'
import { CALLS } from './calls.ts'
import { ERRORS, EVENTS, taskSchemas } from './tasks.ts'
import {
  EXPRESSION,
  either,
  flag,
  integer,
  jsonSchema,
  list,
  mapping,
  mappingRequiring,
  named,
  namedList,
  ref,
  type Schema,
  text,
  VALUES,
  when,
  word,
} from './values.ts'

const NAME = { pattern: '^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$' }

const DOCUMENT = mappingRequiring(
  'The name and version of the flow.',
  ['dsl', 'namespace', 'name', 'version'],
  {
    dsl: { ...word('The version of the language.', ['1.0.3', '1.0.2', '1.0.1', '1.0.0']), default: '1.0.3' },
    namespace: text('The namespace of the flow.', NAME),
    name: text('The name of the flow.', NAME),
    version: text('The version of the flow (semantic versioning), chosen by the author.', {
      pattern: SEMVER,
    }),
    title: text('The title of the flow, for people.'),
    summary: text('A description of the flow, in Markdown.'),
    tags: { description: 'Names and values that classify the flow.', type: 'object' },
    metadata: { description: 'Any data of the author.', type: 'object' },
  },
)

const EXTENSION = {
  ...mappingRequiring('Tasks that run before and after other tasks.', ['extend'], {
    extend: {
      description: 'The task type that is extended.',
      enum: ['all', 'composite', ...TASKS.map(({ kind }) => kind)],
    },
    when: ref('condition', 'The extension applies only if this is true.'),
    before: ref('tasks', 'Tasks that run before the task.'),
    after: ref('tasks', 'Tasks that run after the task.'),
  }),
  anyOf: [{ required: ['before'] }, { required: ['after'] }],
}

const CATALOG = mappingRequiring('A catalog of functions.', ['endpoint'], {
  endpoint: either(
    'The URI of the catalog.',
    { type: 'string' },
    mappingRequiring('The URI with its authentication.', ['uri'], {
      uri: { type: 'string' },
      authentication: { type: 'object' },
    }),
  ),
})

const USE = mapping('Declarations that other parts of the definition refer to by name.', {
  authentications: named('Authentication policies, by name.', ref('policy')),
  catalogs: named('Catalogs of functions, by name.', CATALOG, { not: { const: 'default' } }),
  errors: named('Errors, by name.', ref('error')),
  extensions: list(
    'Extensions: tasks that run before and after other tasks.',
    namedList('', EXTENSION)['items'] as Schema,
  ),
  functions: named('Tasks that `call` can run, by name.', ref('task')),
  retries: named('Retry policies, by name.', ref('retryPolicy')),
  secrets: list(
    'Names of secrets that the flow reads.',
    text('The name.', { pattern: '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$' }),
  ),
  timeouts: named(
    'Timeouts, by name.',
    mappingRequiring('A timeout of a task.', ['after'], { after: ref('dynamicDuration') }),
  ),
})

const CRON = text('Minute, hour, day of the month, month, day of the week.', {
  examples: ['0 9 * * MON-FRI'],
  maxLength: CRON_CHARS_MAX,
})

const HEADER = text('A header name in lower case.', {
  pattern: WEBHOOK_HEADER,
  not: { pattern: SECRET_HEADER },
})

const HMAC = mappingRequiring('An HMAC of the body.', ['header'], {
  header: text('The header that contains it.', { pattern: WEBHOOK_HEADER }),
  algorithm: word('The hash function.', WEBHOOK_ALGORITHMS),
  encoding: word('The encoding of the bytes.', WEBHOOK_ENCODINGS),
  prefix: text('The text before the signature in the header, such as `sha256=`.', {
    pattern: WEBHOOK_PREFIX,
  }),
})

const WEBHOOK = mapping(
  'A webhook: an address with a secret of its own, at which requests start executions.',
  {
    name: text('The name of the webhook, unique in the flow.', { pattern: WEBHOOK_NAME, default: 'default' }),
    headers: list('Headers of the request that the input contains.', HEADER, {
      maxItems: WEBHOOK_HEADERS_MAX,
    }),
    verify: either(
      'The proof of the sender: its signature, or a token.',
      word('The signature of a sender, or a token in `Authorization` or in the URL.', WEBHOOK_SCHEMES),
      mappingRequiring('Another signature.', ['hmac'], { hmac: HMAC }),
    ),
    include: list(
      'Further members of the request that the input contains.',
      word('The name of a member of the input.', WEBHOOK_INCLUDES),
    ),
    challenge: text('The query parameter that the response to a GET request echoes.', {
      pattern: WEBHOOK_CHALLENGE,
    }),
    respond: either(
      'The sender waits for the execution: for its output, or for a response that its output describes.',
      word('The content of the response.', WEBHOOK_RESPONSES),
      mapping('The response, and the maximum time for which the sender waits.', {
        with: word('The content of the response.', WEBHOOK_RESPONSES),
        within: ref('duration', 'The maximum time for which the sender waits, up to PT25S. Default: PT25S.'),
      }),
    ),
  },
)

const SCHEDULE = {
  ...mapping('The triggers of the flow.', {
    every: ref('duration', 'The interval at which the flow starts.'),
    cron: either(
      'The cron expressions at whose times the flow starts.',
      CRON,
      list('Several cron expressions.', CRON, { minItems: 1, maxItems: CRONS_MAX, uniqueItems: true }),
    ),
    after: ref('duration', 'The pause after an execution, before the flow starts again.'),
    on: ref('events', 'The events for which the flow starts; they are its input.'),
    read: ref('read'),
    timezone: text(
      'The time zone of `cron`: a name of the IANA database, such as Europe/Berlin. Default: UTC.',
    ),
    overlap: word('The policy for a start that is due while an earlier execution runs.', OVERLAPS),
    catchUp: ref('duration', 'The maximum delay of a start; a later one is skipped. Default: one minute.'),
    jitter: ref('duration', 'The maximum of the random delay of each start.'),
    webhook: either(
      'The HTTP requests for which the flow starts; they are its input.',
      WEBHOOK,
      list('Several webhooks.', WEBHOOK, { minItems: 1, maxItems: WEBHOOKS_MAX }),
    ),
  }),
  anyOf: TRIGGERS.map((key) => ({ required: [key] })),
  dependentRequired: { read: ['on'] },
  dependentSchemas: objectOf(
    Object.entries(CLOCK_OPTIONS).map(([key, owners]) => [
      key,
      { anyOf: owners.map((one) => ({ required: [one] })) },
    ]),
  ),
}

const CONCURRENCY = mappingRequiring('The limit of concurrent executions of the flow.', ['limit'], {
  limit: integer('The maximum of concurrent executions.', { minimum: 1, maximum: CONCURRENCY_MAX }),
  key: text('An expression on the input. Executions with equal results share one limit.'),
  onLimit: word('The policy for a start beyond the limit.', ON_LIMIT),
  holdWhileWaiting: flag(
    'If false, an execution that waits releases its slot, and queues for a new one before it continues.',
    true,
  ),
})

const LIMITS = mappingRequiring('The limits of an execution.', ['tasks'], {
  tasks: integer('The maximum of tasks that an execution may enter.', {
    minimum: 1,
    maximum: TASKS_MAX,
    default: 10_000,
  }),
})

const EXPECT = {
  ...mapping('Times from 1 second to 365 days whose excess is an event, for alerts.', {
    duration: ref(
      'duration',
      'The expected maximum duration of an execution; a longer one causes platform.execution.overdue.',
    ),
    interval: ref(
      'duration',
      'The expected maximum time between starts; a longer one causes platform.flow.missed.',
    ),
  }),
  anyOf: EXPECTATIONS.map((key) => ({ required: [key] })),
}

const EVALUATE = mapping('The way in which expressions are recognised.', {
  language: word('The language of expressions.', ['jq']),
  mode: word('The form of expressions. `strict`: in ${ }; `loose`: every string may be one.', [
    'strict',
    'loose',
  ]),
})

/** In loose mode, text without `${ }` is an expression, too. */
const IS_LOOSE = {
  properties: { evaluate: { properties: { mode: { const: 'loose' } }, required: ['mode'] } },
  required: ['evaluate'],
}

/**
 * Builds the schema. It is as strict as the compiler, except for what a schema cannot express: declared names, the
 * syntax of expressions, dependencies between values.
 * @param catalogue functions that `call` knows, with their arguments
 */
export function editorSchema(catalogue: Catalogue): Schema {
  const properties = {
    document: DOCUMENT,
    input: ref('input'),
    use: USE,
    do: ref('tasks', 'The tasks of the flow.'),
    onError: ref(
      'tasks',
      'Tasks that run if the flow faults. `then: end` makes their output that of the flow.',
    ),
    finally: ref('tasks', 'Tasks that run at the end of every execution, also of one that is cancelled.'),
    timeout: ref('timeout'),
    output: ref('output'),
    schedule: SCHEDULE,
    concurrency: CONCURRENCY,
    limits: LIMITS,
    expect: EXPECT,
    evaluate: EVALUATE,
    onFault: word(
      'The policy for a flow that faults: it fails, or waits for an operator to decide.',
      ON_FAULT,
    ),
  }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...mappingRequiring(
      'A flow in the DSL of the Open Workflow Specification 1.0.',
      ['document', 'do'],
      properties,
    ),
    ...when(IS_LOOSE, {}, { properties: { concurrency: { properties: { key: EXPRESSION } } } }),
    $defs: { ...taskSchemas(catalogue), ...VALUES, ...ERRORS, ...EVENTS, ...CALLS, jsonSchema: jsonSchema() },
  }
}
