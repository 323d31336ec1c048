/** `tenon workspace host`: the host names under which the platform serves a workspace. */

import type { Command } from 'commander'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { workspaceClient } from '../settings.ts'
import {
  addVerb,
  dateTimeText,
  refuseWithoutYes,
  WORKSPACE,
  type WorkspaceOption,
  YES_FLAG,
  type YesOption,
} from '../verb.ts'

interface Host {
  readonly host: string
  readonly record: { readonly name: string; readonly type: string; readonly value: string }
  readonly verified_at: string | null
}

interface HostOptions extends WorkspaceOption, JsonOption {}

/** A client and the path of the host names of the workspace. */
async function openHosts({ workspace }: WorkspaceOption) {
  const { client, workspace_id } = await workspaceClient(workspace)
  return { client, path: `/v1/workspaces/${encodeURIComponent(workspace_id)}/hosts` }
}

async function list({ json, ...options }: HostOptions): Promise<number> {
  const { client, path } = await openHosts(options)
  return printPages(
    client.pages<Host>(path),
    {
      HOST: ({ host }) => host,
      VERIFIED: ({ verified_at: at }) => at && dateTimeText(at),
      'RECORD (TXT)': ({ record }) => record.name,
      VALUE: ({ record }) => record.value,
    },
    { json },
  )
}

async function create(host: string, options: HostOptions): Promise<number> {
  const { client, path } = await openHosts(options)
  const made = await client.post<Host>(path, { host })
  const { name, type, value } = made.record
  process.stderr.write(
    `Create the DNS record ${name} ${type} "${value}". Then: tenon workspace host verify ${made.host}\n`,
  )
  return printRecord(made, options)
}

async function verify(host: string, options: HostOptions): Promise<number> {
  const { client, path } = await openHosts(options)
  return printRecord(await client.post<Host>(`${path}/${encodeURIComponent(host)}/verify`, {}), options)
}

async function remove(host: string, { yes, ...options }: HostOptions & YesOption): Promise<number> {
  const { client, path } = await openHosts(options)
  const what = `host name ${host}; requests for it are no longer served`
  if (!yes)
    return refuseWithoutYes('This deletes:', [what], 'It can be claimed again, with another DNS record.')
  return printRecord(await client.call<object>('DELETE', `${path}/${encodeURIComponent(host)}`), options)
}

export function hostVerbs(workspace: Command): void {
  const host = workspace.command('host').description('Manage the host names of a workspace.')
  addVerb(host, 'list', 'List the host names of a workspace with their DNS records.', list, [
    WORKSPACE,
    JSON_LINES_FLAG,
  ])
  addVerb(
    host,
    'create <host>',
    'Create a claim to a host name, and print the DNS record that proves it.',
    create,
    [WORKSPACE, JSON_FLAG],
  )
  addVerb(
    host,
    'verify <host>',
    'Verify the DNS record of a host name. From then on, requests for the name are served for the workspace.',
    verify,
    [WORKSPACE, JSON_FLAG],
  )
  addVerb(
    host,
    'delete <host>',
    'Delete a host name. Within 5 s, requests for it are no longer served.',
    remove,
    [YES_FLAG, WORKSPACE, JSON_FLAG],
  )
}
