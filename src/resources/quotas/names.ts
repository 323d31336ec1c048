/** Every quota that is enforced: whose it is, and how it is told. A name is listed once something enforces it. */

import Type, { type Static } from 'typebox'
import { Id, OptionalTime } from '../kinds.ts'

/** Of a workspace. */
export const OF_WORKSPACE = [
  'collections',
  'documents',
  'document_bytes',
  'object_bytes',
  'events_per_day',
  'functions',
  'invocations_per_day',
  'flows',
  'flow_versions',
  'concurrent_executions',
  'execution_starts_per_minute',
  'schedules',
  'mcp_servers',
  'mcp_tools',
  'mcp_calls_per_minute',
  'api_keys',
] as const

/** Of a tenant as a whole. */
export const OF_TENANT = ['workspaces', 'sse_streams'] as const

/** Counted only where they are limited: what lies in another store, and what happens in a window of time. */
const COUNTED_WHERE_LIMITED = /^object_bytes$|_per_(day|minute)$/
export const isCountedAnyway = (name: string): boolean => !COUNTED_WHERE_LIMITED.test(name)

const Limit = Type.Integer({
  minimum: -1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'How many there may be; -1: unlimited, of `sse_streams` what the platform allows each tenant.',
})

/** As the database has it. */
export interface Counted {
  readonly name: string
  readonly limit: number
  readonly used: number | null
  readonly resets_at: string | null
}

const Quota = Type.Object({
  limit: Limit,
  used: Type.Union([Type.Integer(), Type.Null()], {
    description: 'null: not counted, as windows and objects are not until they are limited.',
  }),
  remaining: Type.Union([Type.Integer(), Type.Null()], { description: 'null: unlimited.' }),
  resets_at: Type.Optional(OptionalTime),
})

export const Quotas = Type.Object({
  workspace_id: Type.Optional(Id('ws')),
  tenant_id: Type.Optional(Id('ten')),
  quotas: Type.Record(Type.String(), Quota),
})
export type Quotas = Static<typeof Quotas>

export const Limits = Type.Object(
  Object.fromEntries([...OF_WORKSPACE, ...OF_TENANT].map((name) => [name, Type.Optional(Limit)])),
  { additionalProperties: false, minProperties: 1 },
)

/** Quotas by their names, with what is left of each. */
export function shown(counted: readonly Counted[]): Quotas['quotas'] {
  return Object.fromEntries(
    counted.map(({ name, limit, used, resets_at }) => {
      const remaining = limit === -1 ? null : Math.max(0, limit - (used ?? 0))
      return [name, { limit, used, remaining, ...(resets_at !== null && { resets_at }) }]
    }),
  )
}
