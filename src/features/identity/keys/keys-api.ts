/** API keys of a workspace: create, list, update, rotate, revoke. */

import Type from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import { adminOperation, Input, Name, OptionalTime, Ref, Time } from '../../../access/operation-builders.ts'
import { invalidateKey } from '../../../access/scope-cache.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { creates, findRow, listPage } from '../../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../../tenants/active.ts'
import { requireShareOfPayloads } from '../payload-grants.ts'
import {
  ApiKey,
  ApiKeyWithSecret,
  COLUMNS,
  checkedScopes,
  expireKeys,
  findApiKey,
  Kind,
  newKey,
  RateLimit,
  rejectPast,
  Scopes,
  STATUS,
  Status,
} from './key.ts'
import { API_KEY_LIMITS } from './limits.ts'
import { Actions, checkedGrant, grantOf, Prefixes, storageParts } from './storage-key.ts'

export const createApiKey = adminOperation({
  name: 'api_key.create',
  summary: 'Create an API key; only this response contains the key itself',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    kind: Kind,
    name: Name,
    scopes: Type.Optional(Scopes),
    actions: Type.Optional(Actions),
    prefixes: Type.Optional(Prefixes),
    rate_limit: Type.Optional(RateLimit),
    expires_at: Type.Optional(Time),
  }),
  output: ApiKeyWithSecret,
  http: creates('/v1/api-keys'),
  run: async (scope, { workspace_id, kind, name, ...more }) => {
    rejectPast(more.expires_at)
    requireShareOfPayloads(scope, more.scopes ?? [])
    const id = scope.newId('key')
    const grant = checkedGrant(kind, more)
    const of = {
      ...{ id, kind, name },
      scopes: checkedScopes(more.scopes ?? [], kind),
      storage: grant === null ? null : await storageParts(scope, { id, workspaceId: workspace_id, grant }),
      rateLimit: more.rate_limit ?? null,
      expiresAt: more.expires_at ?? null,
      rotatedFrom: null,
    }
    const owner = sql`select tenant_id, id as workspace_id from workspaces
      where id = ${workspace_id} and ${ACTIVE}`
    const { key, insert } = newKey(scope, of, owner)
    return effectOnce(scope, async (inside) => {
      const [, [made] = []] = await inside.batch(expireKeys(workspace_id), insert)
      if (made === undefined) throw await inactiveProblem(inside, workspace_id)
      return { ...(made as ApiKey), key }
    })
  },
})

export const getApiKey = adminOperation({
  name: 'api_key.get',
  summary: 'Read an API key in masked form',
  roles: ADMINS,
  input: Input({ id: Ref('API key') }),
  output: ApiKey,
  http: { method: 'GET', path: '/v1/api-keys/{id}' },
  run: (scope, { id }) => findApiKey(scope, id),
})

export const listApiKeys = adminOperation({
  name: 'api_key.list',
  summary: 'List API keys in masked form',
  roles: ADMINS,
  input: Input({
    ...PageInput,
    workspace_id: Type.Optional(Ref('workspace')),
    status: Type.Optional(Status),
  }),
  output: PageOf(ApiKey),
  http: { method: 'GET', path: '/v1/api-keys' },
  run: (scope, { workspace_id = null, status = null, ...input }) =>
    listPage<ApiKey>(
      scope,
      input,
      sql`select ${COLUMNS} from api_keys where (${workspace_id}::text is null or workspace_id = ${workspace_id})
        and (${status}::text is null or ${STATUS} = ${status})`,
    ),
})

export const updateApiKey = adminOperation({
  name: 'api_key.update',
  summary: 'Update an API key: name, status, scopes, rate limit or expiry; absent members do not change',
  roles: ADMINS,
  input: Input({
    id: Ref('API key'),
    name: Type.Optional(Name),
    status: Type.Optional(
      Type.Unsafe<'active' | 'disabled'>(
        Type.String({
          enum: ['active', 'disabled'],
          description: 'Status to set; `active` enables a disabled key.',
        }),
      ),
    ),
    expires_at: Type.Optional(OptionalTime),
    rate_limit: Type.Optional(RateLimit),
    scopes: Type.Optional(Scopes),
  }),
  output: ApiKey,
  http: {
    method: 'PATCH',
    path: '/v1/api-keys/{id}',
    body: '*',
    json: ['application/merge-patch+json', 'application/json'],
  },
  run: async (scope, { id, name, status, ...more }) => {
    rejectPast(more.expires_at)
    requireShareOfPayloads(scope, more.scopes ?? [])
    const { kind } = await findApiKey(scope, id)
    const scopes = more.scopes && textArray(checkedScopes(more.scopes, kind))
    const [expires, limits] = [more.expires_at !== undefined, more.rate_limit !== undefined]
    const statement = sql`
      update api_keys set
        name = coalesce(${name ?? null}::text, name),
        scopes = coalesce(${scopes ?? null}::text[], scopes),
        rate_limit = case when ${limits}::boolean then ${more.rate_limit ?? null}::integer else rate_limit end,
        expires_at = case when ${expires}::boolean then ${more.expires_at ?? null}::timestamptz else expires_at end,
        disabled_at = case ${status ?? null}::text
          when 'disabled' then coalesce(disabled_at, now()) when 'active' then null else disabled_at end
      where id = ${id} and ${STATUS} not in ('revoked', 'expired')
        and not (replaced_by is not null and ${more.expires_at === null}::boolean)
      returning ${COLUMNS}`
    const key = await effectOnce(scope, async (inside) => {
      const changed = await inside.row<ApiKey>(statement)
      if (changed === undefined) throw unchangeable(await findApiKey(inside, id))
      return changed
    })
    invalidateKey(scope, id)
    return key
  },
})

function unchangeable({ status }: ApiKey): Problem {
  const ended = status === 'revoked' || status === 'expired'
  const detail = ended
    ? `The API key is ${status}, and stays so.`
    : 'The API key has been replaced by another: its expiry can be moved, but not removed.'
  return new Problem('state_conflict', { detail, members: { state: status } })
}

export const revokeApiKey = adminOperation({
  name: 'api_key.revoke',
  summary: 'Revoke an API key; this node rejects it at once, all nodes within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('API key') }),
  output: ApiKey,
  http: { method: 'DELETE', path: '/v1/api-keys/{id}' },
  run: async (scope, { id }) => {
    const key = await findRow<ApiKey>(
      scope,
      'API key',
      sql`update api_keys set revoked_at = coalesce(revoked_at, now()), ended_at = coalesce(ended_at, now())
        where id = ${id} returning ${COLUMNS}`,
    )
    invalidateKey(scope, id)
    return key
  },
})

export const rotateApiKey = adminOperation({
  name: 'api_key.rotate',
  summary: 'Rotate an API key: a new key gets the same rights, and the old one expires after a grace period',
  roles: ADMINS,
  input: Input({
    id: Ref('API key'),
    grace_seconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: API_KEY_LIMITS.graceSecondsMax,
        description: `Seconds for which the old key stays valid; 0: it expires at once. Default: ${API_KEY_LIMITS.graceSecondsDefault}.`,
      }),
    ),
    expires_at: Type.Optional(
      Type.Unsafe<string | null>({
        ...OptionalTime,
        description:
          'Expiry of the new key. `null`: never. Default: the lifetime of the old key, counted from now.',
      }),
    ),
  }),
  output: ApiKeyWithSecret,
  http: {
    method: 'POST',
    path: '/v1/api-keys/{id}/rotate',
    body: '*',
    status: () => 201,
    location: ({ id }) => `/v1/api-keys/${id}`,
  },
  run: async (
    scope,
    { id, grace_seconds: grace = API_KEY_LIMITS.graceSecondsDefault, expires_at: wanted },
  ) => {
    rejectPast(wanted)
    const old = await findApiKey(scope, id)
    requireShareOfPayloads(scope, old.scopes)
    const newId = scope.newId('key')
    const expiresAt = wanted === undefined ? sameLifetime(old) : wanted
    const { kind, name, workspace_id, scopes, rate_limit: rateLimit } = old
    const grant = grantOf(old)
    const storage =
      grant === null ? null : await storageParts(scope, { id: newId, workspaceId: workspace_id, grant })
    const of = { id: newId, kind, name, scopes, storage, rateLimit, expiresAt, rotatedFrom: id }
    const { key, insert } = newKey(scope, of, replacedBy(newId, id))
    // The old key first: without a grace period it stops counting towards the quota before the new key is counted.
    const statements = [expireKeys(workspace_id), replace(newId, id, grace), insert]
    const output = await effectOnce(scope, async (inside) => {
      const [, , [made] = []] = await inside.batch(...statements)
      if (made === undefined) throw irreplaceable(await findApiKey(inside, id))
      return { ...(made as ApiKey), key }
    })
    invalidateKey(scope, id)
    return output
  },
})

/** Of two concurrent calls, the second waits for the first and then finds the key replaced. */
const replace = (newId: string, id: string, grace: number) => sql`
  update api_keys set replaced_by = ${newId}, expires_at = least(expires_at, now() + ${grace} * interval '1 second'),
    ended_at = case when ${grace} > 0 then ended_at else now() end
  where id = ${id} and ${STATUS} = 'active'
    and exists (select from workspaces where id = api_keys.workspace_id and ${ACTIVE})`

/** The row that {@link replace} has just changed, if any. */
const replacedBy = (newId: string, id: string) =>
  sql`select tenant_id, workspace_id from api_keys where id = ${id} and replaced_by = ${newId}`

/** Years of RFC 3339 have four digits. */
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

/** The end of a new key that lives as long as the old one was to; null if that never ends. */
function sameLifetime({ created_at, expires_at }: ApiKey): string | null {
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
