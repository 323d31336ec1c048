/** `tenon token`, `tenon tenant create`, `tenon key create`. */

import type { Command } from 'commander'
import { need, operatorClient, operatorToken, readSettings } from './settings.ts'
import { printJson, verb, WORKSPACE } from './verb.ts'

const WAIT_S = 30

/** Waits for the provisioning and prints the tenant as JSON. */
async function createTenant(options: { name: string; slug: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const { name, slug } = options
  return printJson(await client.post('/v1/tenants', { name, slug }, WAIT_S))
}

/** Prints the key with its text: the only time that it can be seen. */
async function createKey(options: { kind: string; name: string; workspace?: string }): Promise<number> {
  const settings = await readSettings()
  const client = await operatorClient(settings)
  const workspace_id = options.workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return printJson(
    await client.post('/v1/api-keys', { workspace_id, kind: options.kind, name: options.name }),
  )
}

async function token(): Promise<number> {
  process.stdout.write(`${await operatorToken(await readSettings())}\n`)
  return 0
}

export function adminVerbs(program: Command): void {
  program.command('token').description('print an operator access token, alone on stdout').action(verb(token))
  program
    .command('tenant')
    .description('tenants')
    .command('create')
    .requiredOption('--name <name>')
    .requiredOption('--slug <slug>')
    .action(verb(createTenant))
  program
    .command('key')
    .description('API keys')
    .command('create')
    .requiredOption('--kind <kind>', 'anon or service')
    .option('--name <name>', 'what it is for', 'made by tenon key create')
    .option(...WORKSPACE)
    .action(verb(createKey))
}
