/** `tenon key list|create|rotate|disable|enable|revoke`. */

import type { Command } from 'commander'
import { adminClient, workspaceClient } from './settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface Key {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly last4: string
  readonly status: string
  readonly expires_at: string | null
}

const pathOf = (id: string) => `/v1/api-keys/${encodeURIComponent(id)}`

/** Prints a line for each key of the workspace, masked. */
async function listKeys({ workspace, status }: { workspace?: string; status?: string }): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const query = new URLSearchParams({ workspace_id, ...(status && { status }) })
  for (const key of await client.list<Key>(`/v1/api-keys?${query}`)) process.stdout.write(`${lineOf(key)}\n`)
  return 0
}

function lineOf({ id, kind, name, last4, status, expires_at }: Key): string {
  const until = expires_at === null ? '' : ` until ${expires_at}`
  return `${id}  ${kind.padEnd(8)}…${last4}  ${`${status}${until}`.padEnd(10)}  ${name}`
}

interface CreateOptions extends WorkspaceOption {
  readonly kind: string
  readonly name: string
  readonly scopes?: string[]
  readonly actions?: string[]
  readonly prefixes?: string[]
}

/** Prints the new key with its text, which is shown only once. */
async function createKey({ workspace, ...key }: CreateOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  return printJson(await client.post('/v1/api-keys', { workspace_id, ...key }))
}

/** Prints the new key with its text, and on stderr when the old key expires. */
async function rotateKey(id: string, { grace }: { grace?: string }): Promise<number> {
  const client = await adminClient()
  const body = grace === undefined ? {} : { grace_seconds: Number(grace) }
  printJson(await client.post(`${pathOf(id)}/rotate`, body))
  const { expires_at } = await client.get<Key>(pathOf(id))
  process.stderr.write(`The old key expires at ${expires_at}.\n`)
  return 0
}

const setStatus = (status: 'active' | 'disabled') => async (id: string) =>
  printJson(await (await adminClient()).call('PATCH', pathOf(id), { status }))

const revokeKey = async (id: string) => printJson(await (await adminClient()).call('DELETE', pathOf(id)))

export function keyVerbs(program: Command): void {
  const key = program.command('key').description('Manage API keys.')
  addVerb(key, 'list', 'List the keys of the workspace, masked.', listKeys, [
    ['--status <status>', 'List only keys with this status: active, expiring, disabled, expired or revoked.'],
    WORKSPACE,
  ])
  addVerb(key, 'create', 'Create a key and print its text, which is shown only once.', createKey, [
    ['--name <name>', 'Name of the key.', 'made by tenon key create'],
    ['--scopes <scopes...>', 'Restrict the key to scopes such as collections:read.'],
    ['--actions <actions...>', 'Actions of a storage key: read, write, list or admin.'],
    ['--prefixes <prefixes...>', 'Prefixes of a storage key, such as in/. Default: the whole bucket.'],
    WORKSPACE,
  ]).requiredOption('--kind <kind>', 'Kind of the key: anon, service or storage.')
  addVerb(key, 'rotate <id>', 'Replace a key and print the new one.', rotateKey, [
    ['--grace <seconds>', 'Seconds until the old key expires. Default: 86400 (1 day).'],
  ])
  addVerb(key, 'disable <id>', 'Disable a key. It is rejected until it is enabled.', setStatus('disabled'))
  addVerb(key, 'enable <id>', 'Enable a disabled key.', setStatus('active'))
  addVerb(key, 'revoke <id>', 'Revoke a key. It is rejected forever.', revokeKey)
}
