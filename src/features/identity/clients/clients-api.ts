/** OAuth clients: machines that act for themselves, and public ones through which people sign in. */

import { hash, randomBytes } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import {
  adminOperation,
  DeletedClient,
  Holder,
  HolderRole,
  Id,
  Input,
  Name,
  OptionalTime,
  Ref,
  Time,
} from '../../../access/operation-builders.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, OPERATORS } from '../../../core/policy.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { allRows, creates, fieldProblem, findRow, listPage } from '../../operation-helpers.ts'
import { resolveAssignment, resolveNamedAssignment } from '../assignment.ts'
import { issuerAdminOf } from '../identity-services.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { requireShareOfPayloads } from '../payload-grants.ts'
import { REDIRECT_URI_RULE, usableRedirectUris } from './redirect-uris.ts'

const SECRET_BYTES = 32

const Kind = Type.Union([Type.Literal('machine'), Type.Literal('public')])
const Audience = Type.Unsafe<'accounts' | 'users'>(
  Type.String({
    enum: ['accounts', 'users'],
    description:
      'Subjects that sign in at a public client: accounts, or the users of its workspace. Default: `accounts`.',
  }),
)
const RedirectUris = Type.Array(Type.String({ minLength: 1, maxLength: 2_000 }), {
  maxItems: ISSUER_LIMITS.redirectUrisMax,
  uniqueItems: true,
  description:
    'Redirect URIs: `https`, `http` at a loopback address with any port, or the scheme of an application, such as `cursor://host/path`. A machine client has no redirect URIs.',
})

const SeesPayloads = Type.Boolean({
  description:
    'True if the machine client sees payloads of executions and runs that others have started. It is set when the client is made, by a caller who sees them.',
})

const OAuthClient = component(
  'OAuthClient',
  Type.Object({
    client_id: Type.String({
      description:
        'Id of the client. For a client that describes itself by a metadata document, the URL of the document.',
    }),
    kind: Kind,
    name: Type.String(),
    role: Type.Union([HolderRole, Type.Null()], {
      description: 'Role of a machine client. `null`: a public client, where people have their own roles.',
    }),
    tenant_id: Type.Union([Id('ten'), Type.Null()], {
      description: 'Tenant of the client. `null`: all tenants.',
    }),
    workspace_id: Type.Union([Id('ws'), Type.Null()]),
    audience: Audience,
    redirect_uris: RedirectUris,
    sees_payloads: SeesPayloads,
    registered: Type.Boolean({ description: 'True if the client registered itself (MCP servers only).' }),
    created_by: Type.String(),
    created_at: Time,
    rotated_at: OptionalTime,
  }),
  {
    client_id: EXAMPLE_ID.client,
    kind: 'public',
    name: 'Booking app',
    role: null,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    audience: 'users',
    redirect_uris: ['https://tennis.example/callback'],
    sees_payloads: false,
    registered: false,
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    rotated_at: null,
  },
)
type OAuthClient = Static<typeof OAuthClient>

const WithSecret = component(
  'OAuthClientWithSecret',
  Type.Interface([OAuthClient], {
    client_secret: Type.Optional(
      Type.String({ description: 'Secret of a machine client, shown only once.' }),
    ),
  }),
  {
    ...exampleOf(OAuthClient),
    kind: 'machine',
    role: 'service',
    audience: 'accounts',
    redirect_uris: [],
    client_secret: 'shown once',
  },
)

const COLUMNS = sql`id as client_id, kind, name, role, tenant_id, workspace_id, audience, redirect_uris, sees_payloads, registered,
  created_by, created_at, rotated_at`

export const createOAuthClient = adminOperation({
  name: 'oauth_client.create',
  summary: 'Create an OAuth client; only this response contains the secret of a machine client',
  roles: ADMINS,
  input: Input({
    ...Holder,
    kind: Kind,
    name: Name,
    role: Type.Optional(HolderRole),
    audience: Type.Optional(Audience),
    redirect_uris: Type.Optional(RedirectUris),
    sees_payloads: Type.Optional(SeesPayloads),
  }),
  output: WithSecret,
  http: creates('/v1/oauth-clients', 'client_id'),
  run: async (scope, { kind, name, role, audience = 'accounts', redirect_uris, sees_payloads, ...named }) => {
    const redirectUris = redirect_uris ?? []
    const seesPayloads = sees_payloads === true
    if (seesPayloads && kind === 'public')
      throw fieldProblem('sees_payloads', 'People see payloads by their own accounts.')
    requireShareOfPayloads(scope, seesPayloads)
    checkClient(kind, role, redirectUris)
    if (audience === 'users') checkUserClient(kind, named.workspace_id)
    const assignment =
      role === undefined
        ? await resolveNamedAssignment(scope, named)
        : await resolveAssignment(scope, role, named)
    const secret = kind === 'machine' ? newSecret() : undefined
    const id = scope.newId('client')
    const insert = sql`
      insert into oauth_clients
        (id, tenant_id, workspace_id, kind, role, name, audience, secret_hash, redirect_uris, sees_payloads, created_by)
      values (${id}, ${assignment.tenantId}, ${assignment.workspaceId}, ${kind}, ${role ?? null}, ${name}, ${audience},
        ${secret?.digest ?? null}, ${JSON.stringify(redirectUris)}::jsonb, ${seesPayloads}, ${scope.actor.subject})
      returning ${COLUMNS}`
    return effectOnce(scope, async (inside) => {
      const made = await findRow<OAuthClient>(inside, 'client', insert)
      return { ...made, ...(secret !== undefined && { client_secret: secret.text }) }
    })
  },
})

export const getOAuthClient = adminOperation({
  name: 'oauth_client.get',
  summary: 'Read an OAuth client',
  roles: ADMINS,
  input: Input({ id: Ref('client') }),
  output: OAuthClient,
  http: { method: 'GET', path: '/v1/oauth-clients/{id}' },
  run: (scope, { id }) =>
    findRow<OAuthClient>(scope, 'client', sql`select ${COLUMNS} from oauth_clients where id = ${id}`),
})

export const listOAuthClients = adminOperation({
  name: 'oauth_client.list',
  summary: 'List OAuth clients',
  roles: ADMINS,
  input: Input({ ...PageInput, tenant_id: Type.Optional(Ref('tenant')) }),
  output: PageOf(OAuthClient),
  http: { method: 'GET', path: '/v1/oauth-clients' },
  run: (scope, { tenant_id = null, ...input }) =>
    listPage<OAuthClient>(
      scope,
      input,
      sql`select ${COLUMNS} from oauth_clients where ${tenant_id}::text is null or tenant_id = ${tenant_id}`,
      'client_id',
    ),
})

export const rotateOAuthClient = adminOperation({
  name: 'oauth_client.rotate_secret',
  summary: 'Rotate the secret of a machine client; the previous one becomes invalid within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('client') }),
  output: WithSecret,
  http: { method: 'POST', path: '/v1/oauth-clients/{id}/rotate-secret', body: '*' },
  run: async (scope, { id }) => {
    const { text, digest } = newSecret()
    const { subject } = scope.actor
    const rotate = sql`update oauth_clients set secret_hash = ${digest}, rotated_at = now(),
        rotated_by = case when ${subject} = any(rotated_by) then rotated_by else rotated_by || ${subject}::text end
      where id = ${id} and kind = 'machine' returning ${COLUMNS}`
    const output = await effectOnce(scope, async (inside) => {
      const client = await findRow<OAuthClient>(inside, 'machine client', rotate)
      requireShareOfPayloads(scope, client.sees_payloads)
      return { ...client, client_secret: text }
    })
    issuerAdminOf(scope).forgetClient(id)
    return output
  },
})

export const deleteOAuthClient = adminOperation({
  name: 'oauth_client.delete',
  summary: 'Delete an OAuth client; its tokens become invalid within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('client') }),
  output: DeletedClient,
  http: { method: 'DELETE', path: '/v1/oauth-clients/{id}' },
  run: async (scope, { id }) => {
    await findRow(scope, 'client', sql`delete from oauth_clients where id = ${id} returning id`)
    issuerAdminOf(scope).forgetClient(id)
    return { client_id: id, deleted: true as const }
  },
})

/** 256 random bits, so nothing slower than SHA-256 is needed. */
function newSecret(): { text: string; digest: string } {
  const text = randomBytes(SECRET_BYTES).toString('base64url')
  return { text, digest: hash('sha256', text) }
}

/** @throws Problem `validation_failed` */
function checkClient(kind: 'machine' | 'public', role: string | undefined, uris: readonly string[]): void {
  if (kind === 'machine' && role === undefined) throw fieldProblem('role', 'A machine client needs a role.')
  if (kind === 'machine' && uris.length > 0)
    throw fieldProblem('redirect_uris', 'A machine client has no redirect URIs.')
  if (kind === 'public' && role !== undefined)
    throw fieldProblem('role', 'A public client has no role: people use it with their own role.')
  if (kind === 'public' && uris.length === 0)
    throw fieldProblem('redirect_uris', 'A public client needs at least one redirect URI.')
  if (usableRedirectUris(uris).length < uris.length)
    throw fieldProblem('redirect_uris', `Each redirect URI must be ${REDIRECT_URI_RULE}, without a fragment.`)
}

/** @throws Problem `validation_failed` */
function checkUserClient(kind: 'machine' | 'public', workspaceId: string | undefined): void {
  if (kind === 'machine') throw fieldProblem('audience', 'Users can sign in only at public clients.')
  if (workspaceId === undefined)
    throw fieldProblem('workspace_id', 'A client for users needs the workspace of the users.')
}

export const rotateIssuerKeys = adminOperation({
  name: 'issuer.rotate_keys',
  summary:
    'Rotate the signing key of the issuer; older keys verify until their tokens expire, unless they are revoked',
  roles: OPERATORS,
  recentProof: true,
  input: Input({
    revoke: Type.Optional(
      Type.Boolean({
        description:
          'True if older keys are revoked: every token of the issuer becomes invalid within 5 s. Default: `false`.',
      }),
    ),
  }),
  output: component('SigningKey', Type.Object({ kid: Type.String() }), { kid: '2026-03-02' }),
  http: { method: 'POST', path: '/v1/issuer/rotate-keys', body: '*' },
  run: async (scope, { revoke = false }) => ({
    kid: await issuerAdminOf(scope).rotateKeys(scope.uuid(), revoke),
  }),
})

const PAGE = 200

/** Kinds and names of the clients of a workspace, or of its tenant, for archives. @param scope with the rights of an admin */
export const oauthClientNames = (
  scope: Statements,
  workspaceId: string | null,
): AsyncGenerator<{ readonly id: string; readonly kind: 'machine' | 'public'; readonly name: string }> =>
  allRows(
    PAGE,
    (after) =>
      scope.rows<{ id: string; kind: 'machine' | 'public'; name: string }>(sql`
        select id, kind, name from oauth_clients
        where tenant_id is not null and workspace_id is not distinct from ${workspaceId}::text and not registered and id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )
