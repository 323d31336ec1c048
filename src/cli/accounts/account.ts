/** `tenon account invite|list`: accounts of people who administer the platform, a tenant or a workspace. */

import type { Command } from 'commander'
import { operatorClient, readSettings } from '../settings.ts'
import { addVerb, dateTimeText, printTable } from '../verb.ts'

interface Account {
  readonly id: string
  readonly email: string
  readonly role: string
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

/** Prints the link of the invitation alone on stdout; it is shown only once. */
async function invite(email: string, { role, tenant, workspace, name }: InviteOptions): Promise<number> {
  const settings = await readSettings()
  const client = await operatorClient(settings)
  const tenant_id = tenant ?? (role === 'tenant_admin' ? settings['TENON_TENANT_ID'] : undefined)
  const workspace_id = workspace ?? (OF_WORKSPACE.includes(role) ? settings['TENON_WORKSPACE_ID'] : undefined)
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
    ['ACCOUNT', 'E-MAIL', 'ROLE', 'STATUS', 'LAST SIGN-IN', 'OF'],
    accounts.map(({ id, email, role, status, last_login_at: at, tenant_id, workspace_id }) => [
      ...[id, email, role, status, at === null ? '–' : dateTimeText(at)],
      workspace_id ?? tenant_id ?? 'the platform',
    ]),
  )
  return 0
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
        'Role of the account: operator, tenant_admin, workspace_admin or service.',
        'operator',
      ],
      ['--tenant <id>', 'Tenant of a tenant_admin. Default: TENON_TENANT_ID.'],
      ['--workspace <id>', 'Workspace of a workspace_admin or service account. Default: TENON_WORKSPACE_ID.'],
      ['--name <name>', 'Name of the person.'],
    ],
  )
}
