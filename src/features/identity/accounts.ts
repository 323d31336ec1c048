/** Accounts of people: invited by an admin, reset by a higher role, disabled or deleted at any time. */

import Type, { type Static } from 'typebox'
import {
  adminOperation,
  Holder,
  HolderRole,
  Id,
  Input,
  Name,
  OptionalTime,
  Ref,
  Time,
} from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { issuerAdminOf } from '../../access/scope-services.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, GROUP_PATTERN, outranks, type Role } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { HIDDEN } from '../../core/visible-text.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { conflictIf, creates, findRow, listPage } from '../operation-helpers.ts'
import { resolveAssignment } from './assignment.ts'

const Groups = Type.Array(Type.String({ pattern: GROUP_PATTERN }), {
  maxItems: 50,
  uniqueItems: true,
  description: 'Groups that approvals may name as `group:<name>`.',
})

export const Account = Type.Object({
  id: Id('acct'),
  tenant_id: Type.Union([Id('ten'), Type.Null()], { description: 'null: an operator.' }),
  workspace_id: Type.Union([Id('ws'), Type.Null()]),
  role: HolderRole,
  email: Type.String(),
  name: Type.String(),
  groups: Groups,
  status: Type.Union(
    ['invited', 'active', 'reset', 'disabled'].map((status) => Type.Literal(status)),
    { description: '`reset`: its password was ended, and the link for the next one is not taken up yet.' },
  ),
  invited_until: OptionalTime,
  reset_at: OptionalTime,
  confirmed_by: Type.Array(Type.String(), {
    description:
      'Subjects that have confirmed since the reset that the account is its person’s: then it decides approvals that were asked for before.',
  }),
  created_by: Type.String(),
  created_at: Time,
  updated_at: Time,
  last_login_at: OptionalTime,
})
type Account = Static<typeof Account>

const Invited = Type.Interface([Account], {
  invitation_url: Type.String({ description: 'Shown once: there the person sets a password.' }),
})

const EMAIL_PATTERN = `^[^\\s@<>"${HIDDEN}]+@[^\\s@<>"${HIDDEN}]+$`
const Reset = Type.Interface([Account], {
  reset_url: Type.String({ description: 'Shown once: there the person sets another password.' }),
})

const COLUMNS = sql`id, tenant_id, workspace_id, role, email, name, groups,
  case when disabled_at is not null then 'disabled' when accepted then 'active'
    when accepted_at is not null then 'reset' else 'invited' end as status,
  invited_until, reset_at, confirmed_by, created_by, created_at, updated_at, last_login_at`

const UNTIL = sql`now() + make_interval(days => ${LIMITS.invitationDays})`

/** Stores a new link and voids the previous one. For an accepted account, this ends the password (tenon.keep_account). */
const storeLink = (id: string, digest: Buffer, accepted: boolean) => sql`
  update accounts set invitation = ${digest}, invited_until = ${UNTIL}, updated_at = now()
  where id = ${id} and disabled_at is null and (accepted_at is not null) = ${accepted}::boolean returning ${COLUMNS}`

export const createAccount = adminOperation({
  name: 'account.create',
  summary: 'Invite a person; the invitation is in this answer only',
  roles: ADMINS,
  input: Input({
    ...Holder,
    role: HolderRole,
    email: Type.String({ pattern: EMAIL_PATTERN, maxLength: 320 }),
    name: Type.Optional(Name),
    groups: Type.Optional(Groups),
  }),
  output: Invited,
  http: creates('/v1/accounts'),
  run: async (scope, { role, email: given, name = '', groups = [], ...named }) => {
    const { tenantId, workspaceId } = await resolveAssignment(scope, role, named)
    const { url, digest } = issuerAdminOf(scope).invite()
    const email = given.toLowerCase()
    const id = scope.newId('acct')
    const insert = sql`
      insert into accounts
        (id, tenant_id, workspace_id, role, email, name, groups, invitation, invited_until, created_by)
      values (${id}, ${tenantId}, ${workspaceId}, ${role}, ${email}, ${name}, ${textArray(groups)}::text[], ${digest}, ${UNTIL},
        ${scope.actor.subject})
      on conflict (id) do nothing`
    const [, [made] = []] = await scope
      .batch(insert, storeLink(id, digest, false))
      .catch(conflictIf({ accounts_email: `There is an account of ${email} already.` }))
    if (made === undefined) throw new TypeError('an insert gave no row')
    return { ...(made as unknown as Account), invitation_url: url }
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
  summary: 'Rename, regroup, disable or enable an account; disabled, it is signed out everywhere within 5 s',
  roles: ADMINS,
  input: Input({
    id: Ref('account'),
    name: Type.Optional(Name),
    groups: Type.Optional(Groups),
    disabled: Type.Optional(Type.Boolean()),
  }),
  output: Account,
  http: { method: 'PATCH', path: '/v1/accounts/{id}', body: '*' },
  run: (scope, { id, name, groups, disabled }) =>
    findRow<Account>(
      scope,
      'account',
      sql`
      update accounts set name = coalesce(${name ?? null}, name), groups = coalesce(${groups === undefined ? null : textArray(groups)}::text[], groups), updated_at = now(),
        disabled_at = case ${disabled ?? null}::boolean when true then coalesce(disabled_at, now())
          when false then null else disabled_at end
      where id = ${id} returning ${COLUMNS}`,
    ),
})

export const inviteAccount = adminOperation({
  name: 'account.invite',
  summary: 'Invite a person again who has not accepted yet; the earlier invitation becomes invalid',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Invited,
  http: { method: 'POST', path: '/v1/accounts/{id}/invite', body: '*' },
  run: async (scope, { id }) => {
    const { url, digest } = issuerAdminOf(scope).invite()
    const account = await scope.row<Account>(storeLink(id, digest, false))
    if (account === undefined) throw await notInvited(scope, id)
    return { ...account, invitation_url: url }
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
      detail: `You change your own password at ${issuerAdminOf(scope).passwordUrl}.`,
    })
  if (outranks(actor.role, role as Role)) return
  const detail = `Only a role above ${role} may do this to the account, and you act as ${actor.role}.`
  throw new Problem('forbidden', { detail })
}

export const resetAccount = adminOperation({
  name: 'account.reset',
  summary:
    'End the password of an accepted account, with its sessions and tokens; the link for another one is in this answer only',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Reset,
  http: { method: 'POST', path: '/v1/accounts/{id}/reset', body: '*' },
  run: async (scope, { id }) => {
    const before = await findAccount(scope, id)
    requireHigherRole(scope, before)
    const { url, digest } = issuerAdminOf(scope).invite()
    const account = await scope.row<Account>(storeLink(id, digest, true))
    if (account === undefined) throw conflict(before.status === 'disabled' ? DISABLED : notAccepted(id))
    issuerAdminOf(scope).forgetSubject(id)
    return { ...account, reset_url: url }
  },
})

const notAccepted = (id: string) =>
  `The account was never accepted: invite the person again, POST /v1/accounts/${id}/invite.`

export const confirmAccount = adminOperation({
  name: 'account.confirm',
  summary:
    'Confirm that an account is its person’s after a reset: it decides approvals again that were asked for before, but those of executions that you have started',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Account,
  http: { method: 'POST', path: '/v1/accounts/{id}/confirm', body: '*' },
  run: async (scope, { id }) => {
    requireHigherRole(scope, await findAccount(scope, id))
    const { subject } = scope.actor
    const account = await scope.row<Account>(sql`
      update accounts set updated_at = now(), confirmed_by =
        case when ${subject} = any(confirmed_by) then confirmed_by else confirmed_by || ${subject}::text end
      where id = ${id} and accepted and reset_at is not null returning ${COLUMNS}`)
    if (account !== undefined) return account
    throw conflict('There is nothing to confirm: the account was not reset, or has no password yet.')
  },
})

export const deleteAccount = adminOperation({
  name: 'account.delete',
  summary: 'Delete an account; its tokens end within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: '/v1/accounts/{id}' },
  run: async (scope, { id }) => {
    await findRow(scope, 'account', sql`delete from accounts where id = ${id} returning id`)
    return { id, deleted: true as const }
  },
})
