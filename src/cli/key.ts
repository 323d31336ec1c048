/** `tenon key list|create|rotate|disable|enable|revoke`. */

import type { Command } from 'commander'
import { operatorClient, readSettings, workspaceClient } from './settings.ts'
import { printJson, verb, WORKSPACE } from './verb.ts'

interface Key {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly last4: string
  readonly status: string
  readonly expires_at: string | null
}

const adminClient = async () => operatorClient(await readSettings())
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

interface CreateOptions {
  readonly kind: string
  readonly name: string
  readonly scopes?: string[]
  readonly workspace?: string
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
  const key = program.command('key').description('API keys')
  key
    .command('list')
    .description('keys of the workspace, masked')
    .option('--status <status>', 'active, expiring, disabled, expired or revoked')
    .option(...WORKSPACE)
    .action(verb(listKeys))
  key
    .command('create')
    .description('create a key and print it with its text')
    .requiredOption('--kind <kind>', 'anon or service')
    .option('--name <name>', 'name of the key', 'made by tenon key create')
    .option('--scopes <scopes...>', 'restrict it to scopes such as collections:read')
    .option(...WORKSPACE)
    .action(verb(createKey))
  key
    .command('rotate <id>')
    .description('replace a key, and print the new one')
    .option('--grace <seconds>', 'time until the old key expires; default: one day')
    .action(verb(rotateKey))
  key
    .command('disable <id>')
    .description('reject a key until it is enabled')
    .action(verb(setStatus('disabled')))
  key
    .command('enable <id>')
    .description('accept a disabled key again')
    .action(verb(setStatus('active')))
  key.command('revoke <id>').description('reject a key forever').action(verb(revokeKey))
}
