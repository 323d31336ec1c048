/** `tenon oauth-client`: machines that get tokens for themselves, and programs through which people sign in. */

import type { Command } from 'commander'
import { withQuery } from '../client.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { adminClient } from '../settings.ts'
import { addVerb, refuseWithoutYes, YES_FLAG, type YesOption } from '../verb.ts'

interface OAuthClient {
  readonly client_id: string
  readonly kind: string
  readonly name: string
  readonly role: string | null
  readonly tenant_id: string | null
  readonly workspace_id: string | null
}

const pathOf = (id: string) => `/v1/oauth-clients/${encodeURIComponent(id)}`

interface ListOptions extends JsonOption {
  readonly tenant?: string
}

async function list({ tenant, json }: ListOptions): Promise<number> {
  const client = await adminClient()
  return printPages(
    client.pages<OAuthClient>(withQuery('/v1/oauth-clients', { tenant_id: tenant })),
    {
      CLIENT: ({ client_id }) => client_id,
      KIND: ({ kind }) => kind,
      ROLE: ({ role }) => role,
      OF: ({ workspace_id, tenant_id }) => workspace_id ?? tenant_id ?? 'the platform',
      NAME: ({ name }) => name,
    },
    { json },
  )
}

async function show(id: string, options: JsonOption): Promise<number> {
  return printRecord(await (await adminClient()).get<OAuthClient>(pathOf(id)), options)
}

interface CreateOptions extends JsonOption {
  readonly kind: string
  readonly name: string
  readonly role?: string
  readonly tenant?: string
  readonly workspace?: string
  readonly audience?: string
  readonly redirectUris?: string[]
}

/** Prints the client; of a machine with its secret, which is shown only once. */
async function create({ json, tenant, workspace, redirectUris, ...named }: CreateOptions): Promise<number> {
  const client = await adminClient()
  const body = { ...named, tenant_id: tenant, workspace_id: workspace, redirect_uris: redirectUris }
  return printRecord(await client.post<OAuthClient>('/v1/oauth-clients', body), { json })
}

async function rotate(id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.post<OAuthClient>(`${pathOf(id)}/rotate-secret`, {}), options)
}

async function remove(id: string, { yes, json }: JsonOption & YesOption): Promise<number> {
  const client = await adminClient()
  if (!yes) {
    const { kind, name, role } = await client.get<OAuthClient>(pathOf(id))
    const what = `${kind} client ${id}, “${name}”${role === null ? '' : `, ${role}`}`
    return refuseWithoutYes('This deletes for ever, and ends all tokens of:', [what])
  }
  return printRecord(await client.call<object>('DELETE', pathOf(id)), { json })
}

export function oauthClientVerbs(program: Command): void {
  const client = program.command('oauth-client').description('Manage OAuth clients.')
  addVerb(client, 'list', 'List OAuth clients.', list, [
    ['--tenant <id>', 'List only clients of this tenant.'],
    JSON_LINES_FLAG,
  ])
  addVerb(client, 'show <id>', 'Print an OAuth client.', show, [JSON_FLAG])
  addVerb(client, 'create', 'Create an OAuth client. The secret of a machine is printed only once.', create, [
    [
      '--role <role>',
      'Role of a machine: operator, tenant_admin, workspace_admin, developer, viewer or service. People have their own.',
    ],
    ['--tenant <id>', 'Tenant of the client.'],
    ['--workspace <id>', 'Workspace of the client.'],
    ['--audience <audience>', 'People who sign in at a public client: accounts or users. Default: accounts.'],
    ['--redirect-uris <uris...>', 'Redirect URIs of a public client.'],
    JSON_FLAG,
  ])
    .requiredOption('--kind <kind>', 'Kind of the client: machine or public.')
    .requiredOption('--name <name>', 'Name of the client, which people see when they sign in.')
  addVerb(
    client,
    'rotate <id>',
    'Replace the secret of a machine, and print the new one. The old one becomes invalid within 5 s.',
    rotate,
    [JSON_FLAG],
  )
  addVerb(client, 'delete <id>', 'Delete an OAuth client. Its tokens become invalid within 5 s.', remove, [
    YES_FLAG,
    JSON_FLAG,
  ])
}
