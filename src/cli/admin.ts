/** `tenon token`, `tenon tenant create`. */

import type { Command } from 'commander'
import { operatorClient, operatorToken, readSettings } from './settings.ts'
import { printJson, verb } from './verb.ts'

const WAIT_S = 30

/** Waits for the provisioning and prints the tenant as JSON. */
async function createTenant(options: { name: string; slug: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const { name, slug } = options
  return printJson(await client.post('/v1/tenants', { name, slug }, WAIT_S))
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
}
