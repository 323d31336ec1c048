/** `tenon key list|create|rotate|disable|enable|revoke`. */

import type { Command } from 'commander'
import type { ApiClient } from './client.ts'
import { need, operatorClient, readSettings } from './settings.ts'
import { printJson, verb, WORKSPACE } from './verb.ts'

interface Key {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly last4: string
  readonly status: string
  readonly expires_at: string | null
}

interface Listed {
  readonly data: Key[]
  readonly page: { readonly next: string | null }
}

const aClient = async (): Promise<ApiClient> => operatorClient(await readSettings())
const pathOf = (id: string) => `/v1/api-keys/${encodeURIComponent(id)}`

async function place(workspace: string | undefined): Promise<{ client: ApiClient; workspace_id: string }> {
  const settings = await readSettings()
  const workspace_id = workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return { client: await operatorClient(settings, workspace_id), workspace_id }
}

/** A line for each key of the workspace, masked. */
async function listKeys({ workspace, status }: { workspace?: string; status?: string }): Promise<number> {
  const { client, workspace_id } = await place(workspace)
  const query = new URLSearchParams({ workspace_id, 'page[size]': '200', ...(status && { status }) })
  for (let next: string | null = ''; next !== null; ) {
    if (next !== '') query.set('page[after]', next)
    const { data, page } = await client.get<Listed>(`/v1/api-keys?${query}`)
    for (const key of data) process.stdout.write(`${lineOf(key)}\n`)
    next = page.next
  }
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

/** Prints the key with its text: the only time that it can be seen. */
async function createKey({ workspace, ...key }: CreateOptions): Promise<number> {
  const { client, workspace_id } = await place(workspace)
  return printJson(await client.post('/v1/api-keys', { workspace_id, ...key }))
}

/** Prints the new key with its text, and when the old one ends to stderr. */
async function rotateKey(id: string, { grace }: { grace?: string }): Promise<number> {
  const client = await aClient()
  const body = grace === undefined ? {} : { grace_seconds: Number(grace) }
  printJson(await client.post(`${pathOf(id)}/rotate`, body))
  const { expires_at } = await client.get<Key>(pathOf(id))
  process.stderr.write(`The old key is good until ${expires_at}.\n`)
  return 0
}

const setStatus = (status: 'active' | 'disabled') => async (id: string) =>
  printJson(await (await aClient()).call('PATCH', pathOf(id), { status }))

const revokeKey = async (id: string) => printJson(await (await aClient()).call('DELETE', pathOf(id)))

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
    .description('make a key and print it, with its text')
    .requiredOption('--kind <kind>', 'anon or service')
    .option('--name <name>', 'what it is for', 'made by tenon key create')
    .option('--scopes <scopes...>', 'what it is narrowed to, collections:read and the like')
    .option(...WORKSPACE)
    .action(verb(createKey))
  key
    .command('rotate <id>')
    .description('replace a key by a new one, and print that')
    .option('--grace <seconds>', 'how long the old key is still good; a day where absent')
    .action(verb(rotateKey))
  key
    .command('disable <id>')
    .description('refuse a key until it is enabled')
    .action(verb(setStatus('disabled')))
  key
    .command('enable <id>')
    .description('take a disabled key again')
    .action(verb(setStatus('active')))
  key.command('revoke <id>').description('refuse a key for ever').action(verb(revokeKey))
}
