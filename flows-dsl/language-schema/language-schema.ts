// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions show how expressions are written
/** The flow language as JSON Schema 2020-12, for completion and checks in editors. The compiler does not use it. */

import type { Catalogue } from '../compile/compile-context.ts'
import { CONCURRENCY_MAX, ON_LIMIT } from '../compile/concurrency.ts'
import { SEMVER } from '../compile/definition.ts'
import { CLOCK_OPTIONS, CRON_CHARS_MAX, CRONS_MAX, OVERLAPS, TRIGGERS } from '../compile/schedule.ts'
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
  word,
} from './values.ts'

const NAME = { pattern: '^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$' }

const DOCUMENT = mappingRequiring('What the flow is called.', ['dsl', 'namespace', 'name', 'version'], {
  dsl: { ...word('The version of the language.', ['1.0.3', '1.0.2', '1.0.1', '1.0.0']), default: '1.0.3' },
  namespace: text('What the name belongs to.', NAME),
  name: text('The name of the flow.', NAME),
  version: text('The version of the flow, as the author counts (semantic versioning).', {
    pattern: SEMVER,
  }),
  title: text('The title of the flow, for people.'),
  summary: text('What the flow does, in Markdown.'),
  tags: { description: 'Names and values by which flows are found.', type: 'object' },
  metadata: { description: 'Whatever the author likes.', type: 'object' },
})

const EXTENSION = {
  ...mappingRequiring('Tasks around other tasks.', ['extend'], {
    extend: {
      description: 'The kind of task that is extended.',
      enum: ['all', 'composite', ...TASKS.map(({ kind }) => kind)],
    },
    when: ref('condition', 'Only where this holds.'),
    before: ref('tasks', 'Tasks that are run before the task.'),
    after: ref('tasks', 'Tasks that are run after the task.'),
  }),
  anyOf: [{ required: ['before'] }, { required: ['after'] }],
}

const CATALOG = mappingRequiring('Where a catalog of functions is.', ['endpoint'], {
  endpoint: either(
    'Its URI.',
    { type: 'string' },
    mappingRequiring('The URI with its authentication.', ['uri'], {
      uri: { type: 'string' },
      authentication: { type: 'object' },
    }),
  ),
})

const USE = mapping('What is declared once and named in many places.', {
  authentications: named('How calls say who they are, by name.', ref('policy')),
  catalogs: named('Catalogs of functions, by name.', CATALOG, { not: { const: 'default' } }),
  errors: named('Errors, by name.', ref('error')),
  extensions: list('Tasks around other tasks.', namedList('', EXTENSION)['items'] as Schema),
  functions: named('Tasks that can be called, by name.', ref('task')),
  retries: named('Retries, by name.', ref('retryPolicy')),
  secrets: list(
    'Names of secrets that the flow reads.',
    text('A name.', { pattern: '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$' }),
  ),
  timeouts: named('Timeouts, by name.', mappingRequiring('A timeout.', ['after'], { after: ref('limit') })),
})

const CRON = text('Minute, hour, day of the month, month, day of the week.', {
  examples: ['0 9 * * MON-FRI'],
  maxLength: CRON_CHARS_MAX,
})

const HEADER = text('A name in small letters.', { pattern: WEBHOOK_HEADER, not: { pattern: SECRET_HEADER } })

const HMAC = mappingRequiring('An HMAC of the body.', ['header'], {
  header: text('The header that contains it.', { pattern: WEBHOOK_HEADER }),
  algorithm: word('The hash function.', WEBHOOK_ALGORITHMS),
  encoding: word('How its bytes are written.', WEBHOOK_ENCODINGS),
  prefix: text('Stands before it in the header, such as `sha256=`.', { pattern: WEBHOOK_PREFIX }),
  id: text('The header with the id of the delivery; by default the body is its own id.', {
    pattern: WEBHOOK_HEADER,
  }),
})

const WEBHOOK = mapping('A way for others to start a run, with an address and a secret of its own.', {
  name: text('Which one it is, where there are several.', { pattern: WEBHOOK_NAME, default: 'default' }),
  headers: list('Headers that the run is shown.', HEADER, { maxItems: WEBHOOK_HEADERS_MAX }),
  verify: either(
    'How deliveries prove their sender.',
    word('The signature of a sender, or a token in `Authorization` or in the URL.', WEBHOOK_SCHEMES),
    mappingRequiring('Another signature.', ['hmac'], { hmac: HMAC }),
  ),
  include: list('Further members of the input.', word('A member.', WEBHOOK_INCLUDES)),
  challenge: text('The query parameter that the response to a GET request echoes.', {
    pattern: WEBHOOK_CHALLENGE,
  }),
  respond: either(
    'The sender waits for the execution: for its output, or for a response that its output describes.',
    word('What is sent.', WEBHOOK_RESPONSES),
    mapping('What is sent, and how long the sender waits.', {
      with: word('What is sent.', WEBHOOK_RESPONSES),
      within: ref('duration', 'At most PT25S, which is the default.'),
    }),
  ),
})

const SCHEDULE = {
  ...mapping('When the flow runs by itself.', {
    every: ref('duration', 'Again and again, after this time.'),
    cron: either(
      'By the calendar.',
      CRON,
      list('Several of them.', CRON, { minItems: 1, maxItems: CRONS_MAX, uniqueItems: true }),
    ),
    after: ref('duration', 'Again, so long after it has ended.'),
    on: ref('events', 'When events come; they are its input.'),
    read: ref('read'),
    timezone: text('Of `cron`: a name of the IANA database, such as Europe/Berlin; UTC without it.'),
    overlap: word('What becomes of a start whose time comes while an earlier run goes on.', OVERLAPS),
    catchUp: ref('duration', 'A start that is late by more than this is left out; a minute without it.'),
    jitter: ref('duration', 'Each start is late by a random time, at most this.'),
    webhook: either(
      'When others call; what they send is its input.',
      WEBHOOK,
      list('Several of them.', WEBHOOK, { minItems: 1, maxItems: WEBHOOKS_MAX }),
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

const CONCURRENCY = mappingRequiring('How many executions of the flow may run at the same time.', ['limit'], {
  limit: integer('So many.', { minimum: 1, maximum: CONCURRENCY_MAX }),
  key: { description: 'Executions whose input yields the same are counted together.' },
  onLimit: word('What becomes of one more.', ON_LIMIT),
  holdWhileWaiting: flag(
    'Whether an execution that waits keeps its place, or gives it back and queues before it goes on.',
    true,
  ),
})

const EVALUATE = mapping('How expressions are told from texts.', {
  language: word('The language of expressions.', ['jq']),
  mode: word('Whether an expression must stand in ${ }, or every text is one.', ['strict', 'loose']),
})

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
    timeout: ref('timeout'),
    output: ref('output'),
    schedule: SCHEDULE,
    concurrency: CONCURRENCY,
    evaluate: EVALUATE,
    onFault: word('What becomes of a flow that faults: it fails, or waits for somebody to decide.', ON_FAULT),
  }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...mappingRequiring(
      'A flow in the DSL of the Open Workflow Specification 1.0.',
      ['document', 'do'],
      properties,
    ),
    $defs: { ...taskSchemas(catalogue), ...VALUES, ...ERRORS, ...EVENTS, ...CALLS, jsonSchema: jsonSchema() },
  }
}
