/** Accounts of people: invited by an admin, reset by a higher role, disabled or deleted at any time. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import {
  adminOperation,
  Deleted,
  Holder,
  HolderRole,
  Id,
  Input,
  Name,
  OptionalTime,
  Ref,
  Time,
} from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, GROUP_PATTERN, outranks, type Role } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { HIDDEN } from '../../../core/text/visible-text.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { sql, textArray } from '../../../infra/postgres/sql.ts'
import { allRows, conflictIf, creates, findRow, listPage } from '../../operation-helpers.ts'
import { resolveAssignment } from '../assignment.ts'
import { resetFactors } from '../factors/reset-factors.ts'
import { issuerAdminOf, requireMail } from '../identity-services.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { requireGrantOfPayloads, requireGrantToOther } from '../payload-grants.ts'

const Groups = Type.Array(Type.String({ pattern: GROUP_PATTERN }), {
  maxItems: 50,
  uniqueItems: true,
  description: 'Groups that approvals may name as `group:<name>`.',
})

const SeesPayloads = Type.Boolean({
  description:
    'True if the account sees payloads of executions and runs that others have started; each look is in the audit log. A new link to set a password ends it.',
})

export const Account = component(
  'Account',
  Type.Object({
    id: Id('acct'),
    tenant_id: Type.Union([Id('ten'), Type.Null()], {
      description: 'Tenant of the account. `null`: the account of an operator, which belongs to no tenant.',
    }),
    workspace_id: Type.Union([Id('ws'), Type.Null()]),
    role: HolderRole,
    email: Type.String(),
    name: Type.String(),
    groups: Groups,
    second_factor: Type.Boolean({
      description:
        'True if the account has a second factor, an authenticator app or a passkey, and signs in with it.',
    }),
    passkeys: Type.Integer({ description: 'Number of passkeys.' }),
    sees_payloads: SeesPayloads,
    status: Type.Union(
      ['invited', 'active', 'reset', 'disabled'].map((status) => Type.Literal(status)),
      {
        description:
          'Status of the account. `reset`: the password was invalidated, and the link to set a new one has not been used yet.',
      },
    ),
    invited_until: OptionalTime,
    reset_at: OptionalTime,
    confirmed_by: Type.Array(Type.String(), {
      description:
        'Subjects that have confirmed, since `controlled_at`, that the account belongs to its person. It then decides approvals that were requested before, and those of executions that subjects of `controlled_by` started.',
    }),
    email_verified_at: Type.Union([Time, Type.Null()], {
      description:
        'Time when the password was set with a link mailed to `email`. `null`: it was not, such as when the link was shown to an admin. Only a verified address decides approvals that name it.',
    }),
    controlled_by: Type.Array(Type.String(), {
      description:
        'Subjects that created the account, showed or mailed a link to it, or set its groups. With `fourEyes`, the account does not decide for executions that they started, unless another subject confirms it.',
    }),
    controlled_at: Time,
    created_by: Type.String(),
    created_at: Time,
    updated_at: Time,
    last_login_at: OptionalTime,
  }),
  {
    id: EXAMPLE_ID.account,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: null,
    role: 'tenant_admin',
    email: 'grace@tennis.example',
    name: 'Grace',
    groups: ['board'],
    second_factor: true,
    passkeys: 1,
    sees_payloads: false,
    status: 'active',
    invited_until: null,
    reset_at: null,
    confirmed_by: [],
    email_verified_at: EXAMPLE_TIME.created,
    controlled_by: [],
    controlled_at: EXAMPLE_TIME.created,
    created_by: 'operator',
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
    last_login_at: EXAMPLE_TIME.updated,
  },
)
type Account = Static<typeof Account>

const Mail = Type.Optional(
  Type.Boolean({
    description:
      'True if the link is mailed to the address of the account and not returned, so that its use verifies the address. Default: `false`. A repetition with the same Idempotency-Key sends no mail; if no mail has arrived, request a new link with another key: `POST /v1/accounts/{id}/invite`, or `/reset` for an accepted account.',
  }),
)

/** @param why a person opens it */
const Link = (why: string) =>
  Type.Union([Type.String(), Type.Null()], {
    description: `Link with which the person sets ${why}, shown only once. \`null\`: it was mailed.`,
  })

const Invited = component(
  'AccountWithInvitation',
  Type.Interface([Account], { invitation_url: Link('a password') }),
  {
    ...exampleOf(Account),
    status: 'invited',
    invitation_url: 'https://api.tennis.example/auth/invitation/shown-once',
  },
)

const EMAIL_PATTERN = `^[^\\s@<>"${HIDDEN}]+@[^\\s@<>"${HIDDEN}]+$`
const Reset = component(
  'AccountWithReset',
  Type.Interface([Account], { reset_url: Link('another password') }),
  { ...exampleOf(Account), status: 'reset', reset_url: 'https://api.tennis.example/auth/reset/shown-once' },
)

const COLUMNS = sql`id, tenant_id, workspace_id, role, email, name, groups, sees_payloads,
  exists (select from second_factors f where f.account_id = accounts.id)
    or exists (select from passkeys p where p.account_id = accounts.id) as second_factor,
  (select count(*)::integer from passkeys p where p.account_id = accounts.id) as passkeys,
  case when disabled_at is not null then 'disabled' when accepted then 'active'
    when accepted_at is not null then 'reset' else 'invited' end as status,
  invited_until, reset_at, confirmed_by, email_verified_at, to_json(controlled_by) as controlled_by, controlled_at, created_by, created_at, updated_at, last_login_at`

const UNTIL = sql`now() + make_interval(days => ${ISSUER_LIMITS.invitationDays})`

/** Adds the caller to those who could act as the person of an account. */
const controlled = ({ actor: { subject } }: AdminScope) => sql`controlled_by =
  case when ${subject} = any(controlled_by) then controlled_by else controlled_by || ${subject}::text end`

/** Stores a new link and voids the previous one. For an accepted account, this ends the password (tenon.keep_account). */
const storeLink = (scope: AdminScope, id: string, { digest, mail }: NewLink, accepted: boolean) => sql`
  update accounts set invitation = ${digest}, invited_until = ${UNTIL}, link_mailed = ${mail}::boolean, updated_at = now(),
    linked_by = ${scope.actor.subject}, ${controlled(scope)}
  where id = ${id} and disabled_at is null and (accepted_at is not null) = ${accepted}::boolean returning ${COLUMNS}`

interface NewLink {
  readonly url: string
  readonly digest: Buffer
  readonly mail: boolean
}

/** @throws Problem `state_conflict` if the link is to be mailed, and the platform sends no mails */
function newLink(scope: AdminScope, mail: boolean): NewLink {
  if (mail) requireMail(scope)
  return { ...issuerAdminOf(scope).invite(), mail }
}

/** The link for the answer; null if it is mailed. */
const returnedLink = ({ url, mail }: NewLink): string | null => (mail ? null : url)

/** Mails a link that is stored, if it is to be mailed: not within the transaction, which may be rolled back. */
function mailLink(scope: AdminScope, { url, mail }: NewLink, { email }: Pick<Account, 'email'>): void {
  if (mail) issuerAdminOf(scope).mailLink(email, url)
}

export const createAccount = adminOperation({
  name: 'account.create',
  summary: 'Invite a person by mail, or with a link that only this response contains',
  roles: ADMINS,
  input: Input({
    ...Holder,
    role: HolderRole,
    email: Type.String({ pattern: EMAIL_PATTERN, maxLength: 320 }),
    name: Type.Optional(Name),
    groups: Type.Optional(Groups),
    mail: Mail,
  }),
  output: Invited,
  http: creates('/v1/accounts'),
  run: async (scope, { role, email: address, name = '', groups = [], mail = false, ...named }) => {
    const { tenantId, workspaceId } = await resolveAssignment(scope, role, named)
    const link = newLink(scope, mail)
    const email = address.toLowerCase()
    const id = scope.newId('acct')
    const insert = sql`
      insert into accounts
        (id, tenant_id, workspace_id, role, email, name, groups, created_by)
      values (${id}, ${tenantId}, ${workspaceId}, ${role}, ${email}, ${name}, ${textArray(groups)}::text[],
        ${scope.actor.subject})`
    const output = await effectOnce(scope, async (inside) => {
      const [, [made] = []] = await inside
        .batch(insert, storeLink(scope, id, link, false))
        .catch(conflictIf({ accounts_email: `There is an account of ${email} already.` }))
      if (made === undefined) throw new TypeError('the insert must return a row')
      return { ...(made as unknown as Account), invitation_url: returnedLink(link) }
    })
    mailLink(scope, link, output)
    return output
  },
})

export const getAccount = adminOperation({
  name: 'account.get',
  summary: 'Read an account',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Account,
  http: { method: 'GET', path: '/v1/accounts/{id}' },
  run: (scope, { id }) => findAccount(scope, id),
})

export const listAccounts = adminOperation({
  name: 'account.list',
  summary: 'List accounts',
  roles: ADMINS,
  input: Input({ ...PageInput, tenant_id: Type.Optional(Ref('tenant')) }),
  output: PageOf(Account),
  http: { method: 'GET', path: '/v1/accounts' },
  run: (scope, { tenant_id = null, ...input }) =>
    listPage<Account>(
      scope,
      input,
      sql`select ${COLUMNS} from accounts where ${tenant_id}::text is null or tenant_id = ${tenant_id}`,
    ),
})

export const updateAccount = adminOperation({
  name: 'account.update',
  summary:
    'Update an account: name, groups, status, or the right to see payloads; an account that is disabled or loses the right is signed out everywhere within 5 s',
  roles: ADMINS,
  input: Input({
    id: Ref('account'),
    name: Type.Optional(Name),
    groups: Type.Optional(Groups),
    sees_payloads: Type.Optional(SeesPayloads),
    disabled: Type.Optional(Type.Boolean()),
  }),
  output: Account,
  http: { method: 'PATCH', path: '/v1/accounts/{id}', body: '*' },
  run: async (scope, { id, name, groups, sees_payloads: sees, disabled }) => {
    if (sees === true) await checkGrant(scope, id)
    const statement = sql`
      update accounts set name = coalesce(${name ?? null}, name), updated_at = now(),
        ${groups === undefined ? sql`` : sql`groups = ${textArray(groups)}::text[], ${controlled(scope)},`}
        sees_payloads = coalesce(${sees ?? null}::boolean, sees_payloads),
        disabled_at = case ${disabled ?? null}::boolean when true then coalesce(disabled_at, now())
          when false then null else disabled_at end
      where id = ${id} returning ${COLUMNS}`
    return effectOnce(scope, (inside) => findRow<Account>(inside, 'account', statement))
  },
})

/** @throws Problem `forbidden` for a caller who may not grant it; `state_conflict` before the person has set a password */
async function checkGrant(scope: AdminScope, id: string): Promise<void> {
  requireGrantOfPayloads(scope, id)
  const { status, ...account } = await findAccount(scope, id)
  if (status === 'active') return requireGrantToOther(scope, account)
  throw conflict(
    `The account is ${status}: it gets the right to see payloads once its person has set a password, since whoever is shown the link could.`,
  )
}

export const inviteAccount = adminOperation({
  name: 'account.invite',
  summary: 'Renew the pending invitation of an account; the earlier link becomes invalid',
  roles: ADMINS,
  input: Input({ id: Ref('account'), mail: Mail }),
  output: Invited,
  http: { method: 'POST', path: '/v1/accounts/{id}/invite', body: '*' },
  run: async (scope, { id, mail = false }) => {
    const link = newLink(scope, mail)
    const output = await effectOnce(scope, async (inside) => {
      const account = await inside.row<Account>(storeLink(scope, id, link, false))
      if (account === undefined) throw await notInvited(inside, id)
      return { ...account, invitation_url: returnedLink(link) }
    })
    mailLink(scope, link, output)
    return output
  },
})

async function notInvited(scope: AdminScope, id: string): Promise<Problem> {
  const { status } = await findAccount(scope, id)
  if (status === 'disabled') return conflict(DISABLED)
  return conflict(
    `The account was accepted already, and its password is its person's. If it is lost, reset the account: POST /v1/accounts/${id}/reset, with a role above its own.`,
  )
}

const conflict = (detail: string) => new Problem('state_conflict', { detail })
const DISABLED = 'The account is disabled: enable it first (PATCH).'

/** @throws Problem `not_found` */
const findAccount = (scope: AdminScope, id: string) =>
  findRow<Account>(scope, 'account', sql`select ${COLUMNS} from accounts where id = ${id}`)

/** @throws Problem `forbidden` unless the caller's role is above that of the account */
function requireHigherRole(scope: AdminScope, { id, role }: Account): void {
  const { actor } = scope
  if (actor.subject === id)
    throw new Problem('forbidden', {
      detail: `Change your own password at ${issuerAdminOf(scope).passwordUrl}.`,
    })
  if (outranks(actor.role, role as Role)) return
  const detail = `Only a role above ${role} may do this to the account, and you act as ${actor.role}.`
  throw new Problem('forbidden', { detail })
}

export const resetAccount = adminOperation({
  name: 'account.reset',
  summary:
    'Reset an accepted account: its password, sessions and tokens become invalid; the link for a new password is mailed, or only in this response',
  roles: ADMINS,
  input: Input({ id: Ref('account'), mail: Mail }),
  output: Reset,
  http: { method: 'POST', path: '/v1/accounts/{id}/reset', body: '*' },
  run: async (scope, { id, mail = false }) => {
    const before = await findAccount(scope, id)
    requireHigherRole(scope, before)
    const link = newLink(scope, mail)
    const output = await effectOnce(scope, async (inside) => {
      const account = await inside.row<Account>(storeLink(scope, id, link, true))
      if (account === undefined) throw conflict(before.status === 'disabled' ? DISABLED : notAccepted(id))
      return { ...account, reset_url: returnedLink(link) }
    })
    mailLink(scope, link, output)
    issuerAdminOf(scope).forgetSubject(id)
    return output
  },
})

const notAccepted = (id: string) =>
  `The account was never accepted: invite the person again, POST /v1/accounts/${id}/invite.`

export const confirmAccount = adminOperation({
  name: 'account.confirm',
  summary:
    'Confirm that an account belongs to its person after it was created, reset or regrouped: it then decides approvals requested before, and those of executions that the responsible admin started, but not of executions that you started',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Account,
  http: { method: 'POST', path: '/v1/accounts/{id}/confirm', body: '*' },
  run: async (scope, { id }) => {
    requireHigherRole(scope, await findAccount(scope, id))
    const { subject } = scope.actor
    // Once: a repetition must not confirm the account after another reset.
    return effectOnce(scope, async (inside) => {
      const account = await inside.row<Account>(sql`
        update accounts set updated_at = now(), confirmed_by =
          case when ${subject} = any(confirmed_by) then confirmed_by else confirmed_by || ${subject}::text end
        where id = ${id} and accepted returning ${COLUMNS}`)
      if (account !== undefined) return account
      throw conflict('There is nothing to confirm: the account has no password yet.')
    })
  },
})

export const resetAccountFactors = adminOperation({
  name: 'account.reset_factors',
  summary:
    'Remove the second factor and all passkeys of an account of a lower role, and sign it out everywhere',
  roles: ADMINS,
  recentProof: true,
  input: Input({ id: Ref('account') }),
  output: Account,
  http: { method: 'POST', path: '/v1/accounts/{id}/reset-factors', body: '*' },
  run: async (scope, { id }) => {
    requireHigherRole(scope, await findAccount(scope, id))
    return resetFactors(scope, { kind: 'account', id }, (inside) => findAccount(inside, id))
  },
})

export const deleteAccount = adminOperation({
  name: 'account.delete',
  summary: 'Delete an account; its tokens become invalid within 5 s',
  roles: ADMINS,
  recentProof: true,
  input: Input({ id: Ref('account') }),
  output: Deleted,
  http: { method: 'DELETE', path: '/v1/accounts/{id}' },
  run: async (scope, { id }) => {
    await findRow(scope, 'account', sql`delete from accounts where id = ${id} returning id`)
    return { id, deleted: true as const }
  },
})

const PAGE = 200

/** Addresses and roles of all accounts of a tenant, for archives. @param tenant scope with the rights of its admin */
export const accountNames = (
  tenant: Statements,
): AsyncGenerator<{ readonly id: string; readonly email: string; readonly role: string }> =>
  allRows(
    PAGE,
    (after) =>
      tenant.rows<{ id: string; email: string; role: string }>(sql`
        select id, email, role from accounts where id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )
