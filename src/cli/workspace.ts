/** `tenon quota`, `tenon service`, `tenon metrics`: what a workspace may, has switched on, and does. */

import type { Command } from 'commander'
import { need, operatorClient, readSettings, serviceClient } from './settings.ts'
import { printJson, verb, WORKSPACE } from './verb.ts'

interface Options {
  readonly workspace?: string
}

async function asOperator({ workspace }: Options) {
  const settings = await readSettings()
  const workspace_id = workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return { client: await operatorClient(settings, workspace_id), workspace_id }
}

interface Quota {
  readonly limit: number
  readonly used: number | null
  readonly remaining: number | null
}

async function showQuotas(options: Options): Promise<number> {
  const { client, workspace_id } = await asOperator(options)
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
  const { client, workspace_id } = await asOperator(options)
  return printJson(
    await client.call('PUT', '/v1/quotas', { workspace_id, limits: { [name]: Number(limit) } }),
  )
}

async function configure(features: string[], options: Options): Promise<number> {
  const { client, workspace_id } = await asOperator(options)
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
    .option(...WORKSPACE)
    .action(verb(showQuotas))
  quota
    .command('set <name> <limit>')
    .description('-1: unlimited')
    .option(...WORKSPACE)
    .action(verb(setQuota))
  program
    .command('service')
    .description('experimental features of a workspace')
    .command('configure [features...]')
    .description('switch exactly these on')
    .option(...WORKSPACE)
    .action(verb(configure))
  program
    .command('metrics <metric>')
    .description('requests, errors or latency of the workspace')
    .option('--window <duration>', '30m, 1h, 7d', '1h')
    .action(verb(metrics))
}
