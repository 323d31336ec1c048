/** The API key resource: its schema, its SQL, and the scopes that a key may be narrowed to. */

import Type, { type Static } from 'typebox'
import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { keyHash, makeKey } from '../../../access/authentication/credentials.ts'
import { Id, OptionalTime, Time } from '../../../access/operation-builders.ts'
import { PAYLOADS_SCOPE, seesPayloads } from '../../../access/payload-access.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { isReadScope, STORAGE_ACTIONS, type StorageGrant } from '../../../core/policy.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { SCOPES } from '../../key-operations.ts'
import { allRows, fieldProblem, findRow } from '../../operation-helpers.ts'
import { API_KEY_LIMITS } from './limits.ts'

export const Kind = Type.Union([Type.Literal('anon'), Type.Literal('service'), Type.Literal('storage')])

export const Status = Type.Unsafe<'active' | 'expiring' | 'disabled' | 'expired' | 'revoked'>(
  Type.String({
    enum: ['active', 'expiring', 'disabled', 'expired', 'revoked'],
    description: 'Status of the key. `expiring`: replaced by another key, and valid until `expires_at`.',
  }),
)

export const RateLimit = Type.Union(
  [Type.Integer({ minimum: 1, maximum: API_KEY_LIMITS.requestsPerMinuteMax }), Type.Null()],
  {
    description: 'Maximum number of requests per minute. `null`: the general limit of keys of its kind.',
  },
)

export const ApiKey = component(
  'ApiKey',
  Type.Object({
    id: Id('key'),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    kind: Kind,
    name: Type.String(),
    prefix: Type.String(),
    last4: Type.String(),
    scopes: Type.Array(Type.String(), {
      description: 'Scopes that restrict the key; empty: all rights of its kind.',
    }),
    actions: Type.Union([Type.Array(Type.Enum([...STORAGE_ACTIONS])), Type.Null()], {
      description: 'Actions of a storage key. `null`: the key is of another kind.',
    }),
    prefixes: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description:
        'Prefixes of the objects that a storage key reaches. `null`: the whole bucket, or a key of another kind.',
    }),
    rate_limit: RateLimit,
    status: Status,
    created_by: Type.String(),
    created_at: Time,
    expires_at: OptionalTime,
    revoked_at: OptionalTime,
    last_used_at: OptionalTime,
    rotated_from: Type.Union([Id('key'), Type.Null()], {
      description: 'Id of the key that this one replaces. `null`: none.',
    }),
  }),
  {
    id: EXAMPLE_ID.key,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    kind: 'service',
    name: 'Booking server',
    prefix: 'svc_',
    last4: '73kk',
    scopes: ['collections:read', 'collections:write'],
    actions: null,
    prefixes: null,
    rate_limit: null,
    status: 'active',
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    expires_at: null,
    revoked_at: null,
    last_used_at: EXAMPLE_TIME.updated,
    rotated_from: null,
  },
)
export type ApiKey = Static<typeof ApiKey>

export const ApiKeyWithSecret = component(
  'ApiKeyWithSecret',
  Type.Interface([ApiKey], {
    key: Type.String({
      description:
        'API key itself, shown only once; of a storage key, its secret access key, whose access key id is `id`.',
    }),
  }),
  { ...exampleOf(ApiKey), key: 'svc_shown-once' },
)

/** Of a row of api_keys now. */
export const STATUS = sql`case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired'
  when disabled_at is not null then 'disabled' when replaced_by is not null then 'expiring' else 'active' end`

export const COLUMNS = sql`id, tenant_id, workspace_id, kind, name, prefix, last4, to_json(scopes) as scopes,
  to_json(actions) as actions, to_json(prefixes) as prefixes, rate_limit,
  ${STATUS} as status, created_by, created_at, expires_at, revoked_at, last_used_at, rotated_from`

/** @throws Problem `not_found` */
export const findApiKey = (scope: AdminScope, id: string) =>
  findRow<ApiKey>(scope, 'API key', sql`select ${COLUMNS} from api_keys where id = ${id}`)

/** The properties of a new key, besides its tenant and workspace. */
export interface NewKey {
  readonly id: string
  readonly kind: ApiKey['kind']
  readonly name: string
  readonly scopes: readonly string[]
  /** Of a storage key. */
  readonly storage: StorageParts | null
  readonly rateLimit: number | null
  readonly expiresAt: string | null
  readonly rotatedFrom: string | null
}

/** The grant of a storage key, and the encryption of its secret. */
export interface StorageParts {
  readonly grant: StorageGrant
  /** Encrypts the secret. */
  readonly seal: (secret: string) => Buffer
}

/**
 * The text of a new key, and the statement that stores its digest, or the encrypted secret of a storage key.
 * @param owner selects `tenant_id` and `workspace_id`; without a row, no key is created
 */
export function newKey(scope: AdminScope, of: NewKey, owner: Sql): { key: string; insert: Sql } {
  const key = makeKey(of.kind)
  const { grant, seal } = of.storage ?? {}
  const [hash, secret] = seal === undefined ? [keyHash(key), null] : [null, seal(key)]
  const [actions, prefixes] = [grant?.actions, grant?.prefixes].map((list) => list && textArray(list))
  const insert = sql`
    insert into api_keys (id, tenant_id, workspace_id, kind, name, hash, secret, prefix, last4, scopes, actions,
      prefixes, rate_limit, created_by, expires_at, rotated_from, sees_earlier)
    select ${of.id}, tenant_id, workspace_id, ${of.kind}, ${of.name}, ${hash}::bytea, ${secret}::bytea, ${`svc_${of.kind}_`},
      ${key.slice(-4)}, ${textArray(of.scopes)}::text[], ${actions ?? null}::text[], ${prefixes ?? null}::text[],
      ${of.rateLimit}::integer, ${scope.actor.subject},
      ${of.expiresAt}::timestamptz, ${of.rotatedFrom}, ${of.rotatedFrom !== null && seesPayloads(scope.actor)}
    from (${owner}) as owner
    returning ${COLUMNS}`
  return { key, insert }
}

/** Marks expired keys of a workspace as ended, so that they stop counting towards the quota. Run before each insert. */
export const expireKeys = (workspaceId: string): Sql => sql`
  update api_keys set ended_at = expires_at where id = any(array(
    select id from api_keys where workspace_id = ${workspaceId} and ended_at is null and expires_at <= now()
    for update skip locked))`

/** @throws Problem `validation_failed` for a time that has passed; a key is ended now by revoking it */
export function rejectPast(expiresAt: string | null | undefined): void {
  if (expiresAt === null || expiresAt === undefined || Date.parse(expiresAt) > Date.now()) return
  throw fieldProblem('expires_at', 'The time is in the past.')
}

export const Scopes = Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
  maxItems: API_KEY_LIMITS.scopesMax,
  description: `Scopes that restrict the key; empty: all rights of its kind. Possible scopes: ${SCOPES.join(', ')}.`,
})

/**
 * The scopes as they are stored: without duplicates, sorted.
 * @throws Problem `validation_failed` with an error for each scope that the key cannot have
 */
export function checkedScopes(scopes: readonly string[], kind: ApiKey['kind']): string[] {
  if (kind === 'storage' && scopes.length > 0)
    throw fieldProblem('scopes', 'A storage key has actions instead of scopes.')
  const errors = scopes.flatMap((scope, index): InputError[] => {
    const detail = faultOf(scope, kind)
    return detail === undefined
      ? []
      : [{ in: 'body', name: `scopes.${index}`, pointer: `/scopes/${index}`, detail }]
  })
  if (errors.length === 0) return [...new Set(scopes)].sort()
  const detail = errors.map((error) => `${error.name}: ${error.detail}`).join('; ')
  throw new Problem('validation_failed', {
    detail,
    errors: errors.slice(0, CORE_LIMITS.diagnosticsReturnedMax),
    members: { known: SCOPES },
  })
}

function faultOf(scope: string, kind: ApiKey['kind']): string | undefined {
  if (!SCOPES.includes(scope)) {
    const near = nearest(scope, SCOPES)
    const hint = near === undefined ? `There are ${SCOPES.join(', ')}.` : `Did you mean ${near}?`
    return `There is no such scope. ${hint}`
  }
  if (kind === 'anon' && scope === PAYLOADS_SCOPE) return 'An anon key sees no payloads.'
  if (kind === 'anon' && !isReadScope(scope))
    return 'An anon key is shipped to browsers: it may be narrowed to reading alone. What it writes beyond is what collections allow it, without scopes.'
  return undefined
}

const PAGE = 200

/** Kinds and names of the keys that have not ended, for archives. @param structure scope with the rights of an admin */
export const keyNames = (
  structure: WorkspaceScope,
): AsyncGenerator<{ readonly id: string; readonly kind: Static<typeof Kind>; readonly name: string }> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<{ id: string; kind: Static<typeof Kind>; name: string }>(sql`
        select id, kind, name from api_keys
        where revoked_at is null and ended_at is null and id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )
