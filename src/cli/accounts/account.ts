/** `tenon account`: accounts of people who administer the platform, a tenant or a workspace. */

import type { Command } from 'commander'
import { withQuery } from '../client.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { adminClient, readSettings } from '../settings.ts'
import {
  addVerb,
  dateTimeText,
  type Flag,
  printJson,
  refuseWithoutYes,
  YES_FLAG,
  type YesOption,
} from '../verb.ts'

interface Account {
  readonly id: string
  readonly email: string
  readonly role: string
  readonly status: string
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  readonly last_login_at: string | null
}

export const accountPath = (id: string): string => `/v1/accounts/${encodeURIComponent(id)}`

/** Finds an account by id or by e-mail address. @throws Error if no account has the address, or several tenants have one */
export async function findAccount(account: string) {
  const client = await adminClient()
  if (!account.includes('@')) return { client, account: await client.get<Account>(accountPath(account)) }
  const all = await client.list<Account>('/v1/accounts')
  const [found, ...more] = all.filter(({ email }) => email === account.toLowerCase())
  if (found === undefined) throw new Error(`There is no account of ${account}.`)
  const ids = [found, ...more].map(({ id, tenant_id }) => `${id} of ${tenant_id ?? 'the platform'}`)
  if (more.length > 0) throw new Error(`${account} has several accounts: ${ids.join(', ')}. Use an id.`)
  return { client, account: found }
}

interface ListOptions extends JsonOption {
  readonly tenant?: string
}

async function list({ tenant, json }: ListOptions): Promise<number> {
  const client = await adminClient()
  return printPages(
    client.pages<Account>(withQuery('/v1/accounts', { tenant_id: tenant })),
    {
      ACCOUNT: ({ id }) => id,
      'E-MAIL': ({ email }) => email,
      ROLE: ({ role }) => role,
      STATUS: ({ status }) => status,
      'LAST SIGN-IN': ({ last_login_at: at }) => at && dateTimeText(at),
      OF: ({ workspace_id, tenant_id }) => workspace_id ?? tenant_id ?? 'the platform',
    },
    { json },
  )
}

const show = async (account: string, options: JsonOption): Promise<number> =>
  printRecord((await findAccount(account)).account, options)

interface InviteOptions extends JsonOption {
  readonly role: string
  readonly tenant?: string
  readonly workspace?: string
  readonly name?: string
  readonly groups?: string[]
  readonly mail?: boolean
}

/** The roles whose accounts belong to a workspace; those of developers and viewers may belong to a whole tenant. */
const OF_WORKSPACE = ['workspace_admin', 'developer', 'viewer', 'service']

async function invite(email: string, options: InviteOptions): Promise<number> {
  const { role, tenant, workspace, name, groups, mail, json } = options
  const settings = await readSettings()
  const client = await adminClient()
  const tenant_id = tenant ?? (role === 'tenant_admin' ? settings['TENON_TENANT_ID'] : undefined)
  const isOfWorkspace = OF_WORKSPACE.includes(role) && tenant === undefined
  const workspace_id = workspace ?? (isOfWorkspace ? settings['TENON_WORKSPACE_ID'] : undefined)
  const body = { email, role, tenant_id, workspace_id, name, groups, mail }
  const made = await client.post<Account & { invitation_url: string | null }>('/v1/accounts', body)
  return printLink(made, made.invitation_url, { json })
}

/** Prints the link alone on stdout; it is shown only once. Without one, it was mailed. */
function printLink(account: Account, link: string | null, { json }: JsonOption): number {
  if (json) return printJson(account)
  const { email, role } = account
  if (link !== null) process.stdout.write(`${link}\n`)
  const next = link === null ? 'The link to set a password was mailed.' : 'Open the link, and set a password.'
  process.stderr.write(`${email} has an account as ${role}. ${next}\n`)
  return 0
}

interface LinkOptions extends JsonOption {
  readonly mail?: boolean
}

async function renew(name: string, { mail, json }: LinkOptions): Promise<number> {
  const { client, account } = await findAccount(name)
  const path = `${accountPath(account.id)}/invite`
  const made = await client.post<Account & { invitation_url: string | null }>(path, { mail })
  return printLink(made, made.invitation_url, { json })
}

async function reset(name: string, { mail, json }: LinkOptions): Promise<number> {
  const { client, account } = await findAccount(name)
  const path = `${accountPath(account.id)}/reset`
  const made = await client.post<Account & { reset_url: string | null }>(path, { mail })
  return printLink(made, made.reset_url, { json })
}

async function confirm(name: string, options: JsonOption): Promise<number> {
  const { client, account } = await findAccount(name)
  return printRecord(await client.post<Account>(`${accountPath(account.id)}/confirm`, {}), options)
}

interface Changes extends JsonOption {
  readonly name?: string
  readonly groups?: string[]
  /** False with `--no-payloads`. */
  readonly payloads?: boolean
}

async function update(name: string, { json, payloads, ...named }: Changes): Promise<number> {
  const changes = { ...named, ...(payloads !== undefined && { sees_payloads: payloads }) }
  if (Object.keys(changes).length === 0)
    throw new Error('Nothing is to be changed. Add --name, --groups, --payloads or --no-payloads.')
  const { client, account } = await findAccount(name)
  return printRecord(await client.call<Account>('PATCH', accountPath(account.id), changes), { json })
}

const setDisabled = (disabled: boolean) => async (name: string, options: JsonOption) => {
  const { client, account } = await findAccount(name)
  return printRecord(await client.call<Account>('PATCH', accountPath(account.id), { disabled }), options)
}

async function remove(name: string, { yes, json }: JsonOption & YesOption): Promise<number> {
  const { client, account } = await findAccount(name)
  const { id, email, role } = account
  if (!yes) return refuseWithoutYes('This deletes for ever:', [`account ${id}, ${email}, ${role}`])
  return printRecord(await client.call<object>('DELETE', accountPath(id)), { json })
}

const MAIL_FLAG: Flag = ['--mail', 'Mail the link to the person, and do not print it.']

export function accountVerbs(program: Command): void {
  const account = program
    .command('account')
    .description('Manage accounts of administrators. <account> is an id or an e-mail address.')
  addVerb(account, 'list', 'List accounts.', list, [
    ['--tenant <id>', 'List only accounts of this tenant.'],
    JSON_LINES_FLAG,
  ])
  addVerb(account, 'show <account>', 'Print an account.', show, [JSON_FLAG])
  linkVerbs(account)
  addVerb(
    account,
    'update <account>',
    'Update the name, the groups or the right to see payloads of an account.',
    update,
    [
      ['--name <name>', 'Name of the person.'],
      ['--groups <groups...>', 'Groups of the account, instead of those that it has.'],
      ['--payloads', 'Let the person see inputs, outputs and logs of executions and runs.'],
      ['--no-payloads', 'Hide inputs, outputs and logs of executions and runs from the person.'],
      JSON_FLAG,
    ],
  )
  addVerb(
    account,
    'disable <account>',
    'Disable an account: sign the person out everywhere, and reject sign-ins.',
    setDisabled(true),
    [JSON_FLAG],
  )
  addVerb(account, 'enable <account>', 'Enable a disabled account.', setDisabled(false), [JSON_FLAG])
  addVerb(account, 'delete <account>', 'Delete an account. Its tokens become invalid within 5 s.', remove, [
    YES_FLAG,
    JSON_FLAG,
  ])
}

/** Verbs about the links with which people set their passwords. */
function linkVerbs(account: Command): void {
  addVerb(
    account,
    'invite <email>',
    'Invite a person. Prints only the link to set a password on stdout.',
    invite,
    [
      [
        '--role <role>',
        'Role of the account: operator, tenant_admin, workspace_admin, developer, viewer or service.',
        'operator',
      ],
      [
        '--tenant <id>',
        'Tenant of a tenant_admin, and of a developer or viewer of all its workspaces. Default: TENON_TENANT_ID.',
      ],
      ['--workspace <id>', 'Workspace of any other account. Default: TENON_WORKSPACE_ID.'],
      ['--name <name>', 'Name of the person.'],
      ['--groups <groups...>', 'Groups that approvals may name as group:<name>.'],
      MAIL_FLAG,
      JSON_FLAG,
    ],
  )
  addVerb(
    account,
    'renew <account>',
    'Renew an invitation that was not accepted yet. The earlier link becomes invalid.',
    renew,
    [MAIL_FLAG, JSON_FLAG],
  )
  addVerb(
    account,
    'reset <account>',
    'Reset an account: its password, sessions and tokens end. Prints only the link to set another password on stdout.',
    reset,
    [MAIL_FLAG, JSON_FLAG],
  )
  addVerb(
    account,
    'confirm <account>',
    'Confirm that an account belongs to its person after it was created, reset or given groups by another admin.',
    confirm,
    [JSON_FLAG],
  )
}
