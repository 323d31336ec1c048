/** Rotation: a new key takes the place of an old one, which is good for a while yet. */

import Type from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { invalidateKey } from '../../platform/node-memory.ts'
import { sql } from '../../platform/pg/sql.ts'
import { Input, OptionalTime, onStructure, Ref } from '../kinds.ts'
import { ACTIVE } from '../tenants.ts'
import { type ApiKey, findApiKey, letExpired, making, refusePast, ShownOnce, STATUS } from './key.ts'

export const rotateApiKey = onStructure({
  name: 'api_key.rotate',
  summary: 'Replace an API key by a new one of the same rights; the old one ends after a time of grace',
  roles: ADMINS,
  input: Input({
    id: Ref('API key'),
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: LIMITS.keyGraceSecondsMax,
        description: `How long the old key is still good: ${LIMITS.keyGraceSeconds} where absent; 0: it ends now.`,
      }),
    ),
    expires_at: Type.Optional(
      Type.Unsafe<string | null>({
        ...OptionalTime,
        description: 'Of the new key; null: never. Where absent, it lives as long as the old one was to.',
      }),
    ),
  }),
  output: ShownOnce,
  http: {
    method: 'POST',
    path: '/v1/api-keys/{id}/rotate',
    body: '*',
    status: () => 201,
    location: ({ id }) => `/v1/api-keys/${id}`,
  },
  run: async (scope, { id, grace_seconds: grace = LIMITS.keyGraceSeconds, expires_at: wanted }) => {
    refusePast(wanted)
    const old = await findApiKey(scope, id)
    const newId = scope.newId('key')
    const expiresAt = wanted === undefined ? asLong(old) : wanted
    const { kind, name, workspace_id } = old
    const of = {
      id: newId,
      kind,
      name,
      scopes: old.scopes,
      rateLimit: old.rate_limit,
      expiresAt,
      rotatedFrom: id,
    }
    const { key, insert } = making(scope, of, replacedBy(newId, id))
    // The old one first: without grace, its place in the quota is free for the new one.
    const statements = [letExpired(workspace_id), replace(newId, id, grace), insert]
    const [, , [made] = []] = await scope.batch(...statements)
    if (made === undefined) throw irreplaceable(await findApiKey(scope, id))
    invalidateKey(scope, id)
    return { ...(made as ApiKey), key }
  },
})

/** Of two at once the second waits for the first, and then finds the key replaced. */
const replace = (newId: string, id: string, grace: number) => sql`
  update api_keys set replaced_by = ${newId}, expires_at = least(expires_at, now() + ${grace} * interval '1 second'),
    ended_at = case when ${grace} > 0 then ended_at else now() end
  where id = ${id} and ${STATUS} = 'active'
    and exists (select from workspaces where id = api_keys.workspace_id and ${ACTIVE})`

/** The row that {@link replace} has just changed, if it has. */
const replacedBy = (newId: string, id: string) =>
  sql`select tenant_id, workspace_id from api_keys where id = ${id} and replaced_by = ${newId}`

/** Years of RFC 3339 have four digits. */
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** RFC 3339, or null where the old key never ends. */
function asLong({ created_at, expires_at }: ApiKey): string | null {
  if (expires_at === null) return null
  const untilMs = Date.now() + Date.parse(expires_at) - Date.parse(created_at)
  return new Date(Math.min(untilMs, LAST_MS)).toISOString()
}

function irreplaceable({ status }: ApiKey): Problem {
  const why = {
    active: 'Its workspace is not active.',
    disabled: 'The API key is disabled: enable it first.',
    expiring: 'The API key has been replaced by another already.',
    expired: 'The API key has expired: create a new one.',
    revoked: 'The API key was revoked: create a new one.',
  }
  return new Problem('state_conflict', { detail: why[status], members: { state: status } })
}
