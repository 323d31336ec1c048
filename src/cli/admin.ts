/** `tenon token`, `tenon tenant create`. */

import type { Command } from 'commander'
import { operatorAccess, operatorClient, readSettings } from './settings.ts'
import { printJson, verb } from './verb.ts'

const WAIT_S = 30

/** Waits for the provisioning and prints the tenant as JSON. */
async function createTenant(options: { name: string; slug: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const { name, slug } = options
  return printJson(await client.post('/v1/tenants', { name, slug }, WAIT_S))
}

/** Prints the tenant, or where one is named the workspace, as JSON. */
async function turn(word: 'suspend' | 'resume', id: string, options: { reason?: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const noun = id.startsWith('ws_') ? 'workspaces' : 'tenants'
  return printJson(await client.post(`/v1/${noun}/${encodeURIComponent(id)}/${word}`, options))
}

async function token(): Promise<number> {
  const access = await operatorAccess(await readSettings())
  process.stdout.write(`${access.token}\n`)
  return 0
}

export function adminVerbs(program: Command): void {
  program.command('token').description('print an operator access token, alone on stdout').action(verb(token))
  const tenant = program.command('tenant').description('tenants')
  tenant
    .command('create')
    .requiredOption('--name <name>')
    .requiredOption('--slug <slug>')
    .action(verb(createTenant))
  tenant
    .command('suspend <id>')
    .description('a tenant, or one of its workspaces: within 5 s nothing of it goes on, nothing is lost')
    .option('--reason <text>', 'stands in the record')
    .action(verb((id: string, options: { reason?: string }) => turn('suspend', id, options)))
  tenant
    .command('resume <id>')
    .description('a tenant, or one of its workspaces: its runs go on where they stopped')
    .action(verb((id: string) => turn('resume', id, {})))
}
