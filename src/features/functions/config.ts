/** The configuration of a function: its members, their defaults and bounds. */

import Type, { type Static } from 'typebox'
import { component } from '../../core/components/component.ts'
import { Duration } from '../../core/units.ts'
import { FUNCTION_LIMITS } from './limits.ts'

const { timeoutMs: timeout, memoryMb: memory, config: bounds } = FUNCTION_LIMITS

const Schedule = Type.Object(
  {
    cron: Type.String({
      maxLength: 200,
      description: 'Cron expression of five fields: minute, hour, day, month, weekday.',
    }),
    timezone: Type.Optional(
      Type.String({ maxLength: 64, description: 'IANA name of the time zone. Default: `UTC`.' }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'Input of each run. Default: an empty object.' })),
  },
  { additionalProperties: false, description: 'Schedule on which the function runs.' },
)

const Trigger = Type.Object(
  {
    topics: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      minItems: 1,
      maxItems: bounds.topicsMax,
      description:
        'Topics of events, or `orders.*` for all topics below `orders`; `collections.<name>.created`, `.updated` and `.deleted` are changes of documents in the workspace.',
    }),
  },
  {
    additionalProperties: false,
    description: 'Events for each of which the function runs once; its input is the event (CloudEvents 1.0).',
  },
)

export const FunctionConfig = component(
  'FunctionConfig',
  Type.Object({
    timeout: Duration(
      `Maximum duration of a run, at most ${timeout.max / 60_000}m, and ${timeout.syncMax / 1_000}s for callers that wait. Default: \`${timeout.default / 1_000}s\`.`,
    ),
    memory_mb: Type.Integer({
      minimum: memory.min,
      maximum: memory.max,
      description: `Maximum memory of the process in megabytes. Default: ${memory.default}.`,
    }),
    concurrency: Type.Union([Type.Integer({ minimum: 1, maximum: bounds.concurrencyMax }), Type.Null()], {
      description: 'Maximum number of concurrent runs. `null`: no limit of its own. Default: `null`.',
    }),
    env: Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
      maxProperties: bounds.envMax,
      // Names that have line breaks would be left unchecked.
      additionalProperties: false,
      description:
        'Environment of the code as `context.env`, for settings that are no secrets. A name has at most 64 letters, digits and `_`, and does not begin with a digit.',
    }),
    secrets: Type.Array(Type.String({ maxLength: 64 }), {
      maxItems: bounds.secretsMax,
      uniqueItems: true,
      description: 'Names of secrets of the workspace, which the code receives as `context.secrets`.',
    }),
    egress: Type.Array(Type.String({ minLength: 1, maxLength: 260 }), {
      maxItems: bounds.egressMax,
      uniqueItems: true,
      description:
        'Servers that the code may send requests to: `host:port`, `*.example.com:443`, or `*` for all public ones. Default: none.',
    }),
    scopes: Type.Array(Type.String({ maxLength: 100 }), {
      maxItems: bounds.scopesMax,
      uniqueItems: true,
      description:
        'Scopes of a service key that the code acts with, such as `collections:write`. Default: none, so that the code acts with the rights of its caller.',
    }),
    schedule: Type.Union([Schedule, Type.Null()]),
    triggers: Type.Array(Trigger, { maxItems: bounds.triggersMax }),
    idempotent: Type.Boolean({
      description: 'True if a run may be repeated after a failure. Default: `false`.',
    }),
    retries: Type.Integer({
      minimum: 0,
      maximum: bounds.retriesMax,
      description: 'Maximum number of repetitions of a failed run; requires `idempotent`. Default: 0.',
    }),
    anon: Type.Boolean({ description: 'True if anon keys may invoke the function. Default: `false`.' }),
    user: Type.Boolean({ description: 'True if users may invoke the function. Default: `false`.' }),
  }),
  {
    timeout: '30s',
    memory_mb: 128,
    concurrency: null,
    env: { CURRENCY: 'EUR' },
    secrets: ['payment_key'],
    egress: ['pay.example:443'],
    scopes: ['collections:write'],
    schedule: null,
    triggers: [],
    idempotent: true,
    retries: 2,
    anon: false,
    user: true,
  },
)
export type FunctionConfig = Static<typeof FunctionConfig>

/** Named members are set; the others stay. */
export const ConfigChange = Type.Partial(FunctionConfig, { additionalProperties: false })
export type ConfigChange = Static<typeof ConfigChange>

export const DEFAULTS: FunctionConfig = {
  timeout: `${timeout.default / 1_000}s`,
  memory_mb: memory.default,
  concurrency: null,
  env: {},
  secrets: [],
  egress: [],
  scopes: [],
  schedule: null,
  triggers: [],
  idempotent: false,
  retries: 0,
  anon: false,
  user: false,
}
