/** API keys: made for one workspace, shown once, listed masked, revoked. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, pageBounds, pageFrom } from '../core/page.ts'
import { ADMINS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { keyHash, makeKey } from '../platform/identity/keys.ts'
import { sql } from '../platform/pg/sql.ts'
import { Id, Input, Name, OptionalTime, onStructure, Ref, Time } from './kinds.ts'
import { notActive } from './workspaces.ts'

const Kind = Type.Union([Type.Literal('anon'), Type.Literal('service')])

export const ApiKey = Type.Object({
  id: Id('key'),
  tenant_id: Id('ten'),
  workspace_id: Id('ws'),
  kind: Kind,
  name: Type.String(),
  prefix: Type.String(),
  last4: Type.String(),
  scopes: Type.Array(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('expired'), Type.Literal('revoked')]),
  created_by: Type.String(),
  created_at: Time,
  expires_at: OptionalTime,
  revoked_at: OptionalTime,
  last_used_at: OptionalTime,
})
export type ApiKey = Static<typeof ApiKey>

const COLUMNS = sql`id, tenant_id, workspace_id, kind, name, prefix, last4, to_json(scopes) as scopes,
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end as status,
  created_by, created_at, expires_at, revoked_at, last_used_at`

export const createApiKey = onStructure({
  name: 'api_key.create',
  summary: 'Create an API key; its text is in this answer only',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    kind: Kind,
    name: Name,
    scopes: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 100 }), { maxItems: 50 })),
    expires_at: Type.Optional(Time),
  }),
  output: Type.Interface([ApiKey], { key: Type.String({ description: 'Shown once.' }) }),
  http: {
    method: 'POST',
    path: '/v1/api-keys',
    body: '*',
    status: () => 201,
    location: ({ id }) => `/v1/api-keys/${id}`,
  },
  run: async (scope, input) => {
    if ((input.scopes ?? []).length > 0) {
      const detail = 'Scopes are not enforced yet, so none is taken: a key has the rights of its kind.'
      const errors = [{ in: 'body', name: 'scopes', pointer: '/scopes', detail }] as const
      throw new Problem('validation_failed', { detail, errors })
    }
    const key = makeKey(input.kind)
    if (input.expires_at !== undefined && Date.parse(input.expires_at) <= Date.now()) {
      throw new Problem('validation_failed', { detail: 'expires_at lies in the past.' })
    }
    const made = await scope.row<ApiKey>(sql`
      insert into api_keys (id, tenant_id, workspace_id, kind, name, hash, prefix, last4, scopes, created_by, expires_at)
      select ${scope.newId('key')}, tenant_id, id, ${input.kind}, ${input.name}, ${keyHash(key)},
        ${`svc_${input.kind}_`}, ${key.slice(-4)},
        array(select jsonb_array_elements_text(${JSON.stringify(input.scopes ?? [])}::jsonb)),
        ${scope.actor.subject}, ${input.expires_at ?? null}
      from workspaces where id = ${input.workspace_id} and state = 'active'
      returning ${COLUMNS}`)
    if (made === undefined) throw await notActive(scope, input.workspace_id)
    return { ...made, key }
  },
})

export const getApiKey = onStructure({
  name: 'api_key.get',
  summary: 'Read an API key, masked',
  roles: ADMINS,
  input: Input({ id: Ref('API key') }),
  output: ApiKey,
  http: { method: 'GET', path: '/v1/api-keys/{id}' },
  run: async (scope, { id }) => {
    const key = await scope.row<ApiKey>(sql`select ${COLUMNS} from api_keys where id = ${id}`)
    if (key === undefined) throw notFound('API key')
    return key
  },
})

export const listApiKeys = onStructure({
  name: 'api_key.list',
  summary: 'List API keys, masked',
  roles: ADMINS,
  input: Input({ ...PageInput, workspace_id: Type.Optional(Ref('workspace')) }),
  output: PageOf(ApiKey),
  http: { method: 'GET', path: '/v1/api-keys' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const workspaceId = input.workspace_id ?? null
    return pageFrom(
      input,
      await scope.rows<ApiKey>(sql`
        select ${COLUMNS} from api_keys
        where id > ${after} and (${workspaceId}::text is null or workspace_id = ${workspaceId})
        order by id limit ${limit}`),
    )
  },
})

export const revokeApiKey = onStructure({
  name: 'api_key.revoke',
  summary: 'Revoke an API key: at once on this node, within 5 s on all',
  roles: ADMINS,
  input: Input({ id: Ref('API key') }),
  output: ApiKey,
  http: { method: 'DELETE', path: '/v1/api-keys/{id}' },
  run: async (scope, { id }) => {
    const key = await scope.row<ApiKey>(sql`
      update api_keys set revoked_at = coalesce(revoked_at, now()) where id = ${id} returning ${COLUMNS}`)
    if (key === undefined) throw notFound('API key')
    scope.forgetKey(id)
    return key
  },
})
