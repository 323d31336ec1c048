/** `tenon token|tenant|quota|service|metrics`: administration of tenants and workspaces. */

import type { Command } from 'commander'
import { operatorAccess, operatorClient, readSettings, serviceClient, workspaceClient } from './settings.ts'
import { printJson, verb, WORKSPACE } from './verb.ts'

const WAIT_S = 30

/** Waits for the provisioning, and prints the tenant as JSON. */
async function createTenant(options: { name: string; slug: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const { name, slug } = options
  return printJson(await client.post('/v1/tenants', { name, slug }, WAIT_S))
}

/** Prints the tenant or workspace as JSON. */
async function changeState(
  word: 'suspend' | 'resume',
  id: string,
  options: { reason?: string },
): Promise<number> {
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
  program
    .command('token')
    .description('print an access token of the operator, alone on stdout')
    .action(verb(token))
  const tenant = program.command('tenant').description('manage tenants')
  tenant
    .command('create')
    .description('create a tenant and wait for its provisioning')
    .requiredOption('--name <name>')
    .requiredOption('--slug <slug>')
    .action(verb(createTenant))
  tenant
    .command('suspend <id>')
    .description('suspend a tenant or a workspace within 5 s; no data is lost')
    .option('--reason <text>', 'reason, shown in the record')
    .action(verb((id: string, options: { reason?: string }) => changeState('suspend', id, options)))
  tenant
    .command('resume <id>')
    .description('resume a tenant or a workspace; its executions continue where they stopped')
    .action(verb((id: string) => changeState('resume', id, {})))
}

interface Options {
  readonly workspace?: string
}

interface Quota {
  readonly limit: number
  readonly used: number | null
  readonly remaining: number | null
}

async function showQuotas(options: Options): Promise<number> {
  const { client, workspace_id } = await workspaceClient(options.workspace)
  const path = `/v1/quotas?workspace_id=${workspace_id}`
  const { quotas } = await client.get<{ quotas: Record<string, Quota> }>(path)
  for (const [name, { limit, used }] of Object.entries(quotas)) {
    process.stdout.write(
      `${name.padEnd(24)}${String(used ?? '–').padStart(10)} of ${limit < 0 ? '∞' : limit}\n`,
    )
  }
  return 0
}

async function setQuota(name: string, limit: string, options: Options): Promise<number> {
  const { client, workspace_id } = await workspaceClient(options.workspace)
  return printJson(
    await client.call('PUT', '/v1/quotas', { workspace_id, limits: { [name]: Number(limit) } }),
  )
}

async function configure(features: string[], options: Options): Promise<number> {
  const { client, workspace_id } = await workspaceClient(options.workspace)
  return printJson(await client.post('/v1/services/configure', { workspace_id, experimental: features }))
}

async function metrics(metric: string, { window }: { window: string }): Promise<number> {
  const client = await serviceClient(await readSettings())
  const query = new URLSearchParams({ metric, window })
  return printJson(await client.get(`/v1/analytics/query?${query}`))
}

export function workspaceVerbs(program: Command): void {
  const quota = program.command('quota').description('quotas of a workspace')
  quota
    .command('show')
    .description('print quotas and their usage')
    .option(...WORKSPACE)
    .action(verb(showQuotas))
  quota
    .command('set <name> <limit>')
    .description('set a quota; -1: unlimited')
    .option(...WORKSPACE)
    .action(verb(setQuota))
  program
    .command('service')
    .description('experimental features of a workspace')
    .command('configure [features...]')
    .description('enable exactly these features')
    .option(...WORKSPACE)
    .action(verb(configure))
  program
    .command('metrics <metric>')
    .description('requests, errors or latency of the workspace')
    .option('--window <duration>', '30m, 1h, 7d', '1h')
    .action(verb(metrics))
}
