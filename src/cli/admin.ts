/** `tenon token|tenant|quota|service|metrics`: administration of tenants and workspaces. */

import type { Command } from 'commander'
import { operatorAccess, operatorClient, readSettings, serviceClient, workspaceClient } from './settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from './verb.ts'

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

/** Prints the operation that retries or removes an unfinished tenant or workspace. */
async function endUnfinished(method: 'POST' | 'DELETE', id: string): Promise<number> {
  const client = await operatorClient(await readSettings())
  const path = `/v1/${id.startsWith('ws_') ? 'workspaces' : 'tenants'}/${encodeURIComponent(id)}`
  return printJson(
    await client.call(method, method === 'POST' ? `${path}/retry` : path, undefined, {
      prefer: `wait=${WAIT_S}`,
    }),
  )
}

async function token(): Promise<number> {
  const access = await operatorAccess(await readSettings())
  process.stdout.write(`${access.token}\n`)
  return 0
}

export function adminVerbs(program: Command): void {
  addVerb(program, 'token', 'Print an access token of the operator. Prints nothing else on stdout.', token)
  const tenant = program.command('tenant').description('Manage tenants.')
  addVerb(tenant, 'create', 'Create a tenant and wait for its provisioning.', createTenant)
    .requiredOption('--name <name>', 'Name of the tenant.')
    .requiredOption('--slug <slug>', 'Short name to enter at sign-in: lower-case letters, digits and -.')
  addVerb(
    tenant,
    'suspend <id>',
    'Suspend a tenant or a workspace within 5 s. No data is lost.',
    (id: string, options: { reason?: string }) => changeState('suspend', id, options),
    [['--reason <text>', 'Reason of the suspension, shown with the tenant or workspace.']],
  )
  addVerb(
    tenant,
    'resume <id>',
    'Resume a tenant or a workspace. Its executions continue where they stopped.',
    (id: string) => changeState('resume', id, {}),
  )
  addVerb(
    tenant,
    'retry <id>',
    'Retry the creation of a tenant or a workspace that has failed.',
    (id: string) => endUnfinished('POST', id),
  )
  addVerb(
    tenant,
    'delete <id>',
    'Delete a tenant or a workspace whose creation waits or has failed. Its slug is free at once.',
    (id: string) => endUnfinished('DELETE', id),
  )
}

interface Quota {
  readonly limit: number
  readonly used: number | null
}

async function showQuotas(options: WorkspaceOption): Promise<number> {
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

async function setQuota(name: string, limit: string, options: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(options.workspace)
  return printJson(
    await client.call('PUT', '/v1/quotas', { workspace_id, limits: { [name]: Number(limit) } }),
  )
}

async function configure(features: string[], options: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(options.workspace)
  return printJson(await client.post('/v1/services/configure', { workspace_id, experimental: features }))
}

async function metrics(metric: string, { window }: { window: string }): Promise<number> {
  const client = await serviceClient()
  const query = new URLSearchParams({ metric, window })
  return printJson(await client.get(`/v1/analytics/query?${query}`))
}

export function workspaceVerbs(program: Command): void {
  const quota = program.command('quota').description('Manage the quotas of a workspace.')
  addVerb(quota, 'show', 'Print quotas and their usage.', showQuotas, [WORKSPACE])
  addVerb(quota, 'set <name> <limit>', 'Set a quota. A limit of -1 means unlimited.', setQuota, [WORKSPACE])
  const service = program.command('service').description('Manage the experimental features of a workspace.')
  addVerb(
    service,
    'configure [features...]',
    'Enable the listed features and disable all others.',
    configure,
    [WORKSPACE],
  )
  addVerb(program, 'metrics <metric>', 'Print a metric of the workspace.', metrics, [
    ['--window <duration>', 'Time window, such as 30m, 1h or 7d.', '1h'],
  ])
}
