/** The configuration of a function: its members, their defaults and bounds. */

import Type, { type Static } from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { Duration } from '../../core/units.ts'

const { functionTimeoutMs: timeout, functionMemoryMb: memory, functionConfig: bounds } = LIMITS

const Schedule = Type.Object(
  {
    cron: Type.String({ maxLength: 200, description: 'Five fields: minute, hour, day, month, weekday.' }),
    timezone: Type.Optional(Type.String({ maxLength: 64, description: 'IANA name; UTC by default.' })),
    input: Type.Optional(Type.Unknown({ description: 'The input of each run; an empty object by default.' })),
  },
  { additionalProperties: false, description: 'When it is run.' },
)

const Trigger = Type.Object(
  {
    topics: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      minItems: 1,
      maxItems: bounds.topicsMax,
      description:
        'Topics of events, or `orders.*` for all below one; `collections.<name>.created`, `.updated` and `.deleted` are changes of documents in its workspace.',
    }),
  },
  {
    additionalProperties: false,
    description: 'Events that it is run for, once each; its input is the event (CloudEvents 1.0).',
  },
)

export const FunctionConfig = Type.Object({
  timeout: Duration(
    `Until a run is ended; at most ${timeout.max / 60_000}m, and ${timeout.syncMax / 1_000}s for callers that wait. \`${timeout.default / 1_000}s\` by default.`,
  ),
  memory_mb: Type.Integer({
    minimum: memory.min,
    maximum: memory.max,
    description: `Megabytes that its process may hold; ${memory.default} by default.`,
  }),
  concurrency: Type.Union([Type.Integer({ minimum: 1, maximum: bounds.concurrencyMax }), Type.Null()], {
    description: 'How many runs there may be at once; null, the default, for no limit of its own.',
  }),
  env: Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
    maxProperties: bounds.envMax,
    // Names that have line breaks would be left unchecked.
    additionalProperties: false,
    description:
      '`context.env`: settings that are no secrets. A name has letters, digits and `_`, at most 64, and begins with no digit.',
  }),
  secrets: Type.Array(Type.String({ maxLength: 64 }), {
    maxItems: bounds.secretsMax,
    uniqueItems: true,
    description: 'Names of secrets of the workspace, which the code gets as `context.secrets`.',
  }),
  egress: Type.Array(Type.String({ minLength: 1, maxLength: 260 }), {
    maxItems: bounds.egressMax,
    uniqueItems: true,
    description:
      'Servers that the code may send requests to: `host:port`, `*.example.com:443`, or `*` for all public ones. None by default.',
  }),
  scopes: Type.Array(Type.String({ maxLength: 100 }), {
    maxItems: bounds.scopesMax,
    uniqueItems: true,
    description:
      'Scopes of a service key that the code acts with, such as `collections:write`. Without any, it acts with the rights of its caller.',
  }),
  schedule: Type.Union([Schedule, Type.Null()]),
  triggers: Type.Array(Trigger, { maxItems: bounds.triggersMax }),
  idempotent: Type.Boolean({ description: 'Whether a run may be repeated after a failure.' }),
  retries: Type.Integer({
    minimum: 0,
    maximum: bounds.retriesMax,
    description: 'How often a failed run is repeated; takes `idempotent`.',
  }),
  anon: Type.Boolean({ description: 'Whether anon keys may invoke it; false by default.' }),
  user: Type.Boolean({ description: 'Whether users may invoke it; false by default.' }),
})
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
