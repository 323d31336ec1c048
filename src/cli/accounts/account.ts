/** `tenon account invite|list|update|delete`: accounts of people who administer, develop or see the platform, a tenant or a workspace. */

import type { Command } from 'commander'
import { operatorClient, readSettings } from '../settings.ts'
import { addVerb, dateTimeText, printJson, printTable } from '../verb.ts'

interface Account {
  readonly id: string
  readonly email: string
  readonly role: string
  readonly sees_payloads: boolean
  readonly status: string
  readonly tenant_id: string | null
  readonly workspace_id: string | null
  readonly last_login_at: string | null
}

interface InviteOptions {
  readonly role: string
  readonly tenant?: string
  readonly workspace?: string
  readonly name?: string
}

/** The roles whose accounts belong to a workspace. */
const OF_WORKSPACE = ['workspace_admin', 'service']
/** The roles whose accounts belong to a workspace, or to the tenant that is named instead. */
const OF_EITHER = ['developer', 'viewer']

/** Prints the link of the invitation alone on stdout; it is shown only once. */
async function invite(email: string, { role, tenant, workspace, name }: InviteOptions): Promise<number> {
  const settings = await readSettings()
  const client = await operatorClient(settings)
  const tenant_id = tenant ?? (role === 'tenant_admin' ? settings['TENON_TENANT_ID'] : undefined)
  const isOfWorkspace = OF_WORKSPACE.includes(role) || (OF_EITHER.includes(role) && tenant === undefined)
  const workspace_id = workspace ?? (isOfWorkspace ? settings['TENON_WORKSPACE_ID'] : undefined)
  const body = { email, role, tenant_id, workspace_id, name }
  const made = await client.post<Account & { invitation_url: string }>('/v1/accounts', body)
  process.stdout.write(`${made.invitation_url}\n`)
  process.stderr.write(`${made.email} is invited as ${made.role}: open the link, and set a password.\n`)
  return 0
}

async function list(): Promise<number> {
  const client = await operatorClient(await readSettings())
  const accounts = await client.list<Account>('/v1/accounts')
  printTable(
    ['ACCOUNT', 'E-MAIL', 'ROLE', 'PAYLOADS', 'STATUS', 'LAST SIGN-IN', 'OF'],
    accounts.map(({ id, email, role, sees_payloads, status, last_login_at: at, tenant_id, workspace_id }) => [
      ...[id, email, role, sees_payloads ? 'sees' : '–', status, at === null ? '–' : dateTimeText(at)],
      workspace_id ?? tenant_id ?? 'the platform',
    ]),
  )
  return 0
}

interface UpdateOptions {
  readonly name?: string
  readonly payloads?: string
}

async function update(id: string, { name, payloads }: UpdateOptions): Promise<number> {
  if (payloads !== undefined && !/^(yes|no)$/.test(payloads)) throw new Error('--payloads is yes or no.')
  const client = await operatorClient(await readSettings())
  const body = { name, sees_payloads: payloads === undefined ? undefined : payloads === 'yes' }
  return printJson(await client.call('PATCH', `/v1/accounts/${encodeURIComponent(id)}`, body))
}

async function remove(id: string): Promise<number> {
  const client = await operatorClient(await readSettings())
  return printJson(await client.call('DELETE', `/v1/accounts/${encodeURIComponent(id)}`))
}

export function accountVerbs(program: Command): void {
  const account = program.command('account').description('Manage accounts of administrators.')
  addVerb(account, 'list', 'List accounts.', list)
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
        'Tenant of a tenant_admin, or of a developer or viewer of all its workspaces. Default: TENON_TENANT_ID, for a tenant_admin.',
      ],
      ['--workspace <id>', 'Workspace of any other account. Default: TENON_WORKSPACE_ID.'],
      ['--name <name>', 'Name of the person.'],
    ],
  )
  addVerb(account, 'update <account>', 'Update an account, by its id; prints it.', update, [
    ['--name <name>', 'Name of the person.'],
    ['--payloads <yes|no>', 'Right to see payloads of executions and runs that others have started.'],
  ])
  addVerb(account, 'delete <account>', 'Delete an account, by its id, and sign its person out.', remove)
}
