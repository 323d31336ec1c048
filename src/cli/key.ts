/** `tenon key list|create|rotate|disable|enable|revoke`. */

import type { Command } from 'commander'
import { withQuery } from './client.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from './output.ts'
import { adminClient, workspaceClient } from './settings.ts'
import { addVerb, dateTimeText, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Key {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly last4: string
  readonly status: string
  readonly expires_at: string | null
}

const pathOf = (id: string) => `/v1/api-keys/${encodeURIComponent(id)}`

interface ListOptions extends WorkspaceOption, JsonOption {
  readonly status?: string
}

/** Prints the keys of the workspace, masked. */
async function listKeys({ workspace, status, json }: ListOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  return printPages(
    client.pages<Key>(withQuery('/v1/api-keys', { workspace_id, status })),
    {
      KEY: ({ id }) => id,
      KIND: ({ kind }) => kind,
      'LAST 4': ({ last4 }) => last4,
      STATUS: ({ status }) => status,
      EXPIRES: ({ expires_at: at }) => at && dateTimeText(at),
      NAME: ({ name }) => name,
    },
    { json },
  )
}

interface CreateOptions extends WorkspaceOption, JsonOption {
  readonly kind: string
  readonly name: string
  readonly scopes?: string[]
  readonly actions?: string[]
  readonly prefixes?: string[]
}

/** Prints the new key with its text, which is shown only once. */
async function createKey({ workspace, json, ...key }: CreateOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  return printRecord(await client.post<Key>('/v1/api-keys', { workspace_id, ...key }), { json })
}

/** Prints the new key with its text, and on stderr when the old key expires. */
async function rotateKey(id: string, { grace, json }: JsonOption & { grace?: string }): Promise<number> {
  const client = await adminClient()
  const body = grace === undefined ? {} : { grace_seconds: Number(grace) }
  printRecord(await client.post<Key>(`${pathOf(id)}/rotate`, body), { json })
  const { expires_at } = await client.get<Key>(pathOf(id))
  process.stderr.write(`The old key expires at ${expires_at}.\n`)
  return 0
}

const setStatus = (status: 'active' | 'disabled') => async (id: string, options: JsonOption) =>
  printRecord(await (await adminClient()).call<Key>('PATCH', pathOf(id), { status }), options)

const revokeKey = async (id: string, options: JsonOption) =>
  printRecord(await (await adminClient()).call<Key>('DELETE', pathOf(id)), options)

export function keyVerbs(program: Command): void {
  const key = program.command('key').description('Manage API keys.')
  addVerb(key, 'list', 'List the keys of the workspace, masked.', listKeys, [
    ['--status <status>', 'List only keys with this status: active, expiring, disabled, expired or revoked.'],
    WORKSPACE,
    JSON_LINES_FLAG,
  ])
  addVerb(key, 'create', 'Create a key and print its text, which is shown only once.', createKey, [
    ['--name <name>', 'Name of the key.', 'made by tenon key create'],
    ['--scopes <scopes...>', 'Restrict the key to scopes such as collections:read.'],
    ['--actions <actions...>', 'Actions of a storage key: read, write, list or admin.'],
    ['--prefixes <prefixes...>', 'Prefixes of a storage key, such as in/. Default: the whole bucket.'],
    WORKSPACE,
    JSON_FLAG,
  ]).requiredOption('--kind <kind>', 'Kind of the key: anon, service or storage.')
  addVerb(key, 'rotate <id>', 'Replace a key and print the new one.', rotateKey, [
    ['--grace <seconds>', 'Seconds until the old key expires. Default: 86400 (1 day).'],
    JSON_FLAG,
  ])
  addVerb(key, 'disable <id>', 'Disable a key. It is rejected until it is enabled.', setStatus('disabled'), [
    JSON_FLAG,
  ])
  addVerb(key, 'enable <id>', 'Enable a disabled key.', setStatus('active'), [JSON_FLAG])
  addVerb(key, 'revoke <id>', 'Revoke a key. It is rejected forever.', revokeKey, [JSON_FLAG])
}
