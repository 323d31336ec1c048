/** Accounts of people: invited by an admin, signed in at the issuer, disabled or deleted at any time. */

import Type, { type Static } from 'typebox'
import { LIMITS } from '../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../core/page.ts'
import { ADMINS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { HIDDEN } from '../core/visible-text.ts'
import { violated } from '../platform/pg/errors.ts'
import { sql } from '../platform/pg/sql.ts'
import { placeOf } from './holders.ts'
import { Holder, HolderRole, Id, Input, Name, OptionalTime, onStructure, Ref, Time } from './kinds.ts'

export const Account = Type.Object({
  id: Id('acct'),
  tenant_id: Type.Union([Id('ten'), Type.Null()], { description: 'null: an operator.' }),
  workspace_id: Type.Union([Id('ws'), Type.Null()]),
  role: HolderRole,
  email: Type.String(),
  name: Type.String(),
  status: Type.Union(['invited', 'active', 'disabled'].map((status) => Type.Literal(status))),
  invited_until: OptionalTime,
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

const COLUMNS = sql`id, tenant_id, workspace_id, role, email, name,
  case when disabled_at is not null then 'disabled' when accepted then 'active' else 'invited' end as status,
  invited_until, created_by, created_at, updated_at, last_login_at`

const UNTIL = sql`now() + make_interval(days => ${LIMITS.invitationDays})`

/** Of several attempts at one request the last invitation counts: it is the one that was shown. */
const invite = (id: string, digest: Buffer) => sql`
  update accounts set invitation = ${digest}, invited_until = ${UNTIL}, updated_at = now()
  where id = ${id} and disabled_at is null returning ${COLUMNS}`

export const createAccount = onStructure({
  name: 'account.create',
  summary: 'Invite a person; the invitation is in this answer only',
  roles: ADMINS,
  input: Input({
    ...Holder,
    role: HolderRole,
    email: Type.String({ pattern: EMAIL_PATTERN, maxLength: 320 }),
    name: Type.Optional(Name),
  }),
  output: Invited,
  http: {
    method: 'POST',
    path: '/v1/accounts',
    body: '*',
    status: () => 201,
    location: ({ id }) => `/v1/accounts/${id}`,
  },
  run: async (scope, { role, email: given, name = '', ...named }) => {
    const { tenantId, workspaceId } = await placeOf(scope, role, named)
    const { url, digest } = scope.issuing.invite()
    const email = given.toLowerCase()
    const id = scope.newId('acct')
    const insert = sql`
      insert into accounts
        (id, tenant_id, workspace_id, role, email, name, invitation, invited_until, created_by)
      values (${id}, ${tenantId}, ${workspaceId}, ${role}, ${email}, ${name}, ${digest}, ${UNTIL},
        ${scope.actor.subject})
      on conflict (id) do nothing`
    const [, [made] = []] = await scope.batch(insert, invite(id, digest)).catch((error: unknown) => {
      if (violated(error) !== 'accounts_email') throw error
      throw new Problem('conflict', { detail: `There is an account of ${email} already.` })
    })
    if (made === undefined) throw new TypeError('an insert gave no row')
    return { ...(made as unknown as Account), invitation_url: url }
  },
})

export const getAccount = onStructure({
  name: 'account.get',
  summary: 'Read an account',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Account,
  http: { method: 'GET', path: '/v1/accounts/{id}' },
  run: async (scope, { id }) => {
    const account = await scope.row<Account>(sql`select ${COLUMNS} from accounts where id = ${id}`)
    if (account === undefined) throw notFound('account')
    return account
  },
})

export const listAccounts = onStructure({
  name: 'account.list',
  summary: 'List accounts',
  roles: ADMINS,
  input: Input({ ...PageInput, tenant_id: Type.Optional(Ref('tenant')) }),
  output: PageOf(Account),
  http: { method: 'GET', path: '/v1/accounts' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    const tenantId = input.tenant_id ?? null
    return pageFrom(
      input,
      await scope.rows<Account>(sql`
        select ${COLUMNS} from accounts
        where id > ${after} and (${tenantId}::text is null or tenant_id = ${tenantId})
        order by id limit ${limit}`),
    )
  },
})

export const updateAccount = onStructure({
  name: 'account.update',
  summary: 'Rename, disable or enable an account; disabled, it is signed out everywhere within 5 s',
  roles: ADMINS,
  input: Input({
    id: Ref('account'),
    name: Type.Optional(Name),
    disabled: Type.Optional(Type.Boolean()),
  }),
  output: Account,
  http: { method: 'PATCH', path: '/v1/accounts/{id}', body: '*' },
  run: async (scope, { id, name, disabled }) => {
    const account = await scope.row<Account>(sql`
      update accounts set name = coalesce(${name ?? null}, name), updated_at = now(),
        disabled_at = case ${disabled ?? null}::boolean when true then coalesce(disabled_at, now())
          when false then null else disabled_at end
      where id = ${id} returning ${COLUMNS}`)
    if (account === undefined) throw notFound('account')
    return account
  },
})

export const inviteAccount = onStructure({
  name: 'account.invite',
  summary: 'Invite a person again: a lost invitation or password; the one before is void',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Invited,
  http: { method: 'POST', path: '/v1/accounts/{id}/invite', body: '*' },
  run: async (scope, { id }) => {
    const { url, digest } = scope.issuing.invite()
    const account = await scope.row<Account>(invite(id, digest))
    if (account === undefined) throw notFound('account')
    return { ...account, invitation_url: url }
  },
})

export const deleteAccount = onStructure({
  name: 'account.delete',
  summary: 'Delete an account; its tokens end within 5 s',
  roles: ADMINS,
  input: Input({ id: Ref('account') }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: '/v1/accounts/{id}' },
  run: async (scope, { id }) => {
    const gone = await scope.row<{ id: string }>(sql`delete from accounts where id = ${id} returning id`)
    if (gone === undefined) throw notFound('account')
    return { id: gone.id, deleted: true as const }
  },
})
