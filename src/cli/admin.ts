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
  word: 'suspend' | 'resume' | 'restore',
  id: string,
  options: { reason?: string },
): Promise<number> {
  const client = await operatorClient(await readSettings())
  const noun = id.startsWith('ws_') ? 'workspaces' : 'tenants'
  return printJson(await client.post(`/v1/${noun}/${encodeURIComponent(id)}/${word}`, options))
}

const pathOf = (id: string): string =>
  `/v1/${id.startsWith('ws_') ? 'workspaces' : 'tenants'}/${encodeURIComponent(id)}`

const WAITING = { prefer: `wait=${WAIT_S}` }

/** Prints the operation that retries the creation. */
async function retry(id: string): Promise<number> {
  const client = await operatorClient(await readSettings())
  return printJson(await client.call('POST', `${pathOf(id)}/retry`, undefined, WAITING))
}

/** Prints the operation of the deletion. */
async function remove(id: string, options: { graceDays?: string; yes?: boolean }): Promise<number> {
  const { graceDays, yes } = options
  if (graceDays === '0' && yes !== true) {
    process.stderr.write(
      `With --grace-days 0, ${id} is purged at once with all that it has, and nobody can restore it. Add --yes if you mean that.\n`,
    )
    return 1
  }
  const client = await operatorClient(await readSettings())
  const query = graceDays === undefined ? '' : `?grace_days=${encodeURIComponent(graceDays)}`
  return printJson(await client.call('DELETE', `${pathOf(id)}${query}`, undefined, WAITING))
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
  addVerb(tenant, 'retry <id>', 'Retry the creation of a tenant or a workspace that has failed.', retry)
  addVerb(
    tenant,
    'delete <id>',
    'Delete a tenant or a workspace. It is suspended at once, and purged with all that it has after 7 days.',
    remove,
    [
      ['--grace-days <days>', 'Days until the purge, 0 to 90. With 0 it begins at once.'],
      ['--yes', 'Confirm a purge that begins at once.'],
    ],
  )
  addVerb(
    tenant,
    'restore <id>',
    'Restore a tenant or a workspace that is being deleted, before its purge begins.',
    (id: string) => changeState('restore', id, {}),
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
