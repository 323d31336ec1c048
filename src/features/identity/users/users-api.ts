/** End users of a workspace: invited by an admin or by signing up, disabled, signed out, exported or deleted at any time. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import {
  AnyName,
  adminOperation,
  Id,
  Input,
  Name,
  OptionalTime,
  Ref,
  Time,
} from '../../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import type { ByteReply } from '../../../core/bytes.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { exceedsDepth, unstorableAt } from '../../../core/json.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import {
  bodyProblem,
  conflictIf,
  creates,
  findRow,
  listPage,
  NDJSON,
  ndjsonDownload,
} from '../../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../../tenants/active.ts'
import { resetFactors } from '../factors/reset-factors.ts'
import { issuerAdminOf, requireMail, userInvitationOf } from '../identity-services.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { AUTH_DEFAULTS, type StoredAuth, USER_EMAIL_PATTERN } from './auth-settings.ts'

const Claims = Type.Record(AnyName, Type.Unknown(), {
  description: `Claims for access rules, copied into tokens as \`claims\`: at most ${ISSUER_LIMITS.users.claimsBytesMax} bytes of JSON, ${ISSUER_LIMITS.users.claimsDepthMax} levels. The user cannot change them.`,
})

export const User = component(
  'User',
  Type.Object({
    id: Id('usr'),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    email: Type.String(),
    email_verified: Type.Boolean(),
    name: Type.String(),
    claims: Claims,
    status: Type.Enum(['invited', 'active', 'disabled']),
    second_factor: Type.Boolean({ description: 'True if signing in with a password also requires a code.' }),
    passkeys: Type.Integer({ description: 'Number of passkeys.' }),
    identities: Type.Array(Type.String(), {
      description: 'Issuers of the identity providers that the user has signed in with.',
    }),
    created_by: Type.String({
      description:
        'Origin of the user: `sign-up`, `identity-provider`, or the subject that invited the user.',
    }),
    created_at: Time,
    updated_at: Time,
    last_login_at: OptionalTime,
  }),
  {
    id: EXAMPLE_ID.user,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    email: 'ada@tennis.example',
    email_verified: true,
    name: 'Ada',
    claims: { member: true },
    status: 'active',
    second_factor: false,
    passkeys: 1,
    identities: [],
    created_by: 'sign-up',
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
    last_login_at: EXAMPLE_TIME.updated,
  },
)
type User = Static<typeof User>

const Mail = Type.Optional(
  Type.Boolean({
    description:
      'True if the invitation is mailed and not returned, so that its use proves who reads the mailbox. Default: `false`: an admin who received it in the response counts as the person of the user (`fourEyes`).',
  }),
)

const Invited = component(
  'UserWithInvitation',
  Type.Interface([User], {
    invitation_url: Type.Union([Type.String(), Type.Null()], {
      description:
        'Link to set a password, shown only once. `null`: it was only mailed. A repetition with the same Idempotency-Key returns it again and sends no mail.',
    }),
  }),
  {
    ...exampleOf(User),
    status: 'invited',
    invitation_url: 'https://api.tennis.example/auth/invitation/shown-once',
  },
)

const COLUMNS = sql`id, tenant_id, workspace_id, email, email_verified_at is not null as email_verified, name, claims,
  case when disabled_at is not null then 'disabled' when email_verified_at is null then 'invited' else 'active' end
    as status,
  exists (select from second_factors where user_id = users.id) as second_factor,
  (select count(*)::integer from passkeys where user_id = users.id) as passkeys,
  array(select distinct i.issuer from user_identities i where i.tenant_id = users.tenant_id
    and i.workspace_id = users.workspace_id and i.user_id = users.id and i.disconnected_at is null order by 1)
    as identities,
  created_by, created_at, updated_at, last_login_at`

interface Invitation {
  readonly digest: Buffer
  /** For the answer; null if it is only mailed. */
  readonly url: string | null
  /** The subject that sees the answer. */
  readonly shownTo: string | null
  readonly send: (to: string, brandName: string) => void
}

/** @throws Problem `state_conflict` if it is only to be mailed, and the platform sends no mails */
function newInvitation(scope: AdminScope, mail: boolean): Invitation {
  const invitation = userInvitationOf(scope)
  if (!mail) return { ...invitation, shownTo: scope.actor.subject }
  requireMail(scope)
  return { ...invitation, url: null, shownTo: null }
}

/** Stores a new invitation and voids the previous one. */
const storeInvitation = (id: string, { digest, shownTo }: Invitation): readonly Sql[] => [
  sql`delete from user_links where user_id = ${id} and purpose = 'invitation'`,
  sql`insert into user_links (digest, tenant_id, workspace_id, user_id, purpose, email, shown_to, expires_at)
    select ${digest}, tenant_id, workspace_id, id, 'invitation', email, ${shownTo},
      now() + make_interval(days => ${ISSUER_LIMITS.invitationDays})
    from users where id = ${id} and email_verified_at is null and disabled_at is null returning user_id`,
]

/** @throws Problem `validation_failed` */
export function checkClaims(claims: Static<typeof Claims>): void {
  const { claimsBytesMax, claimsDepthMax } = ISSUER_LIMITS.users
  if (exceedsDepth(claims, claimsDepthMax))
    throw bodyProblem('/claims', `must not be nested deeper than ${claimsDepthMax} levels`)
  const text = JSON.stringify(claims)
  const bytes = Buffer.byteLength(text)
  if (bytes > claimsBytesMax)
    throw bodyProblem('/claims', `has ${bytes} bytes of JSON; at most ${claimsBytesMax} are allowed`)
  const unstorable = unstorableAt(claims, '/claims')
  if (unstorable !== undefined)
    throw bodyProblem(unstorable, 'has a NUL character or half of a surrogate pair')
}

/** @throws Problem `not_found`; `state_conflict` if the workspace takes no new users */
async function requireInvitations(scope: AdminScope, workspaceId: string): Promise<{ brandName: string }> {
  const { name, auth } = await findRow<{ name: string; auth: Partial<StoredAuth> }>(
    scope,
    'workspace',
    sql`select w.name, coalesce(s.auth, '{}') as auth from workspaces w
      left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id where w.id = ${workspaceId}`,
  )
  const { sign_up, branding } = { ...AUTH_DEFAULTS, ...auth }
  if (sign_up !== 'off') return { brandName: branding.name ?? name }
  const body = JSON.stringify({ workspace_id: workspaceId, auth: { sign_up: 'invite' } })
  throw new Problem('state_conflict', {
    detail: 'The workspace takes no new users: its setting auth.sign_up is "off".',
    adminHint: `POST /v1/services/configure ${body}`,
  })
}

export const createUser = adminOperation({
  name: 'user.create',
  summary: 'Invite a user by mail; only this response may also contain the invitation link',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    email: Type.String({ pattern: USER_EMAIL_PATTERN, maxLength: 320 }),
    name: Type.Optional(Name),
    claims: Type.Optional(Claims),
    mail: Mail,
  }),
  output: Invited,
  http: creates('/v1/users'),
  run: async (scope, { workspace_id, email: address, name = '', claims = {}, mail = false }) => {
    checkClaims(claims)
    const { brandName } = await requireInvitations(scope, workspace_id)
    const invitation = newInvitation(scope, mail)
    const email = address.toLowerCase()
    const id = scope.newId('usr')
    const insert = sql`
      insert into users (id, tenant_id, workspace_id, email, name, claims, created_by)
      select ${id}, tenant_id, id, ${email}, ${name}, ${JSON.stringify(claims)}::json, ${scope.actor.subject}
      from workspaces where id = ${workspace_id} and ${ACTIVE}`
    const output = await effectOnce(scope, async (inside) => {
      const [, , , [made] = []] = await inside
        .batch(insert, ...storeInvitation(id, invitation), sql`select ${COLUMNS} from users where id = ${id}`)
        .catch(conflictIf({ users_email: `There is a user ${email} already.` }))
      if (made === undefined) throw await inactiveProblem(inside, workspace_id)
      return { ...(made as unknown as User), invitation_url: invitation.url }
    })
    // A link in a mail is a valid one: it is stored by now.
    invitation.send(email, brandName)
    return output
  },
})

export const inviteUser = adminOperation({
  name: 'user.invite',
  summary: 'Renew the pending invitation of a user; the earlier link becomes invalid',
  roles: ADMINS,
  input: Input({ id: Ref('user'), mail: Mail }),
  output: Invited,
  http: { method: 'POST', path: '/v1/users/{id}/invite', body: '*' },
  run: async (scope, { id, mail = false }) => {
    const user = await findUser(scope, id)
    if (user.status !== 'invited') throw notInvited(user.status)
    const { brandName } = await requireInvitations(scope, user.workspace_id)
    const invitation = newInvitation(scope, mail)
    const output = await effectOnce(scope, async (inside) => {
      const [, stored = []] = await inside.batch(...storeInvitation(id, invitation))
      if (stored.length === 0) throw notInvited((await findUser(inside, id)).status)
      return { ...user, invitation_url: invitation.url }
    })
    invitation.send(user.email, brandName)
    return output
  },
})

const notInvited = (state: string) =>
  new Problem('state_conflict', {
    detail: `The user is ${state}. A lost password is reset by the user, on the sign-in page.`,
    members: { state },
  })

/** @throws Problem `not_found` */
const findUser = (scope: AdminScope, id: string) =>
  findRow<User>(scope, 'user', sql`select ${COLUMNS} from users where id = ${id}`)

export const getUser = adminOperation({
  name: 'user.get',
  summary: 'Read a user',
  roles: ADMINS,
  input: Input({ id: Ref('user') }),
  output: User,
  http: { method: 'GET', path: '/v1/users/{id}' },
  run: (scope, { id }) => findUser(scope, id),
})

export const listUsers = adminOperation({
  name: 'user.list',
  summary: 'List users',
  roles: ADMINS,
  input: Input({
    ...PageInput,
    workspace_id: Type.Optional(Ref('workspace')),
    email: Type.Optional(
      Type.String({ maxLength: 320, description: 'Complete e-mail address of the user.' }),
    ),
  }),
  output: PageOf(User),
  http: { method: 'GET', path: '/v1/users' },
  run: (scope, { workspace_id = null, email, ...input }) =>
    listPage<User>(
      scope,
      input,
      sql`select ${COLUMNS} from users where (${workspace_id}::text is null or workspace_id = ${workspace_id})
        and (${email ?? null}::text is null or email = ${email?.toLowerCase() ?? null})`,
    ),
})

export const updateUser = adminOperation({
  name: 'user.update',
  summary: 'Update a user: name, status or claims; a disabled user is signed out everywhere within 5 s',
  roles: ADMINS,
  input: Input({
    id: Ref('user'),
    name: Type.Optional(Name),
    claims: Type.Optional(Claims),
    disabled: Type.Optional(Type.Boolean()),
  }),
  output: User,
  http: { method: 'PATCH', path: '/v1/users/{id}', body: '*' },
  run: async (scope, { id, name, claims, disabled }) => {
    if (claims !== undefined) checkClaims(claims)
    const statement = sql`
      update users set name = coalesce(${name ?? null}, name), updated_at = now(),
        claims = coalesce(${claims === undefined ? null : JSON.stringify(claims)}::json, claims),
        disabled_at = case ${disabled ?? null}::boolean when true then coalesce(disabled_at, now())
          when false then null else disabled_at end
      where id = ${id} returning ${COLUMNS}`
    const user = await effectOnce(scope, (inside) => findRow<User>(inside, 'user', statement))
    if (disabled !== undefined) issuerAdminOf(scope).forgetSubject(id)
    return user
  },
})

export const signOutUser = adminOperation({
  name: 'user.sign_out',
  summary: 'Sign a user out everywhere: sessions end at once, access tokens within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('user') }),
  output: User,
  http: { method: 'POST', path: '/v1/users/{id}/sign-out', body: '*' },
  run: async (scope, { id }) => {
    const statement = sql`update users set signed_out_at = clock_timestamp() where id = ${id} returning ${COLUMNS}`
    const user = await effectOnce(scope, (inside) => findRow<User>(inside, 'user', statement))
    issuerAdminOf(scope).forgetSubject(id)
    return user
  },
})

export const resetUserFactors = adminOperation({
  name: 'user.reset_factors',
  summary: 'Remove the second factor and all passkeys of a user, and sign the user out everywhere',
  roles: ADMINS,
  recentProof: true,
  input: Input({ id: Ref('user') }),
  output: User,
  http: { method: 'POST', path: '/v1/users/{id}/reset-factors', body: '*' },
  run: (scope, { id }) => resetFactors(scope, { kind: 'user', id }, (inside) => findUser(inside, id)),
})

/** A user as GET returns it, in the workspace of the scope. @param admin scope of a workspace admin */
export const readProfile = (admin: WorkspaceScope, id: string): Promise<User | undefined> =>
  admin.row<User>(sql`select ${COLUMNS} from users where id = ${id}`)

export const exportUsers = adminOperation({
  name: 'user.export',
  summary: 'Export all users of a workspace as NDJSON, without passwords',
  roles: ADMINS,
  recentProof: true,
  input: Input({ workspace_id: Ref('workspace') }),
  output: Type.Unsafe<ByteReply>(Type.Unknown({ description: 'One user per line, as GET returns it.' })),
  http: { method: 'GET', path: '/v1/users/export', reply: 'bytes', bytesType: NDJSON },
  run: async (scope, { workspace_id }): Promise<ByteReply> => {
    await findRow(
      scope,
      'workspace',
      sql`select id from workspaces where id = ${workspace_id} and state <> 'deleted'`,
    )
    return ndjsonDownload('users', readLines(scope, workspace_id))
  },
})

async function* readLines(scope: AdminScope, workspaceId: string): AsyncGenerator<Buffer> {
  let after = ''
  for (;;) {
    const users = await scope.rows<User>(sql`
      select ${COLUMNS} from users where workspace_id = ${workspaceId} and id > ${after}
      order by id limit ${ISSUER_LIMITS.users.exportPageUsers}`)
    if (users.length > 0) yield Buffer.from(users.map((user) => `${JSON.stringify(user)}\n`).join(''))
    const last = users.at(-1)
    if (last === undefined || users.length < ISSUER_LIMITS.users.exportPageUsers) return
    after = last.id
  }
}
