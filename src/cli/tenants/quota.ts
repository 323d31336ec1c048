/** `tenon quota|metrics`: what a workspace or a tenant may use, and what it has used. */

import type { Command } from 'commander'
import type { ApiClient } from '../client.ts'
import { JSON_FLAG, type JsonOption, printPages } from '../output.ts'
import { adminClient, serviceClient, workspaceClient } from '../settings.ts'
import { addVerb, type Flag, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'

interface Quota {
  readonly limit: number
  readonly used: number | null
  readonly remaining: number | null
  readonly resets_at?: string | null
}

interface Quotas {
  readonly quotas: Readonly<Record<string, Quota>>
}

interface QuotaOptions extends WorkspaceOption, JsonOption {
  readonly tenant?: string
}

/** The owner of the quotas: the tenant, if one is named, or a workspace. */
async function findOwner({ tenant, workspace }: QuotaOptions) {
  if (tenant !== undefined) return { client: await adminClient(), owner: { tenant_id: tenant } }
  const { client, workspace_id } = await workspaceClient(workspace)
  return { client, owner: { workspace_id } } satisfies { client: ApiClient; owner: object }
}

async function show(options: QuotaOptions): Promise<number> {
  const { client, owner } = await findOwner(options)
  return print(await client.get<Quotas>(`/v1/quotas?${new URLSearchParams(owner)}`), options)
}

async function set(name: string, limit: string, options: QuotaOptions): Promise<number> {
  const { client, owner } = await findOwner(options)
  const body = { ...owner, limits: { [name]: Number(limit) } }
  return print(await client.call<Quotas>('PUT', '/v1/quotas', body), options)
}

async function print(found: Quotas, { json }: JsonOption): Promise<number> {
  if (json) return printJson(found)
  return printPages<[string, Quota]>([Object.entries(found.quotas)], {
    QUOTA: ([name]) => name,
    USED: ([, { used }]) => used,
    LIMIT: ([, { limit }]) => (limit < 0 ? '∞' : limit),
    REMAINING: ([, { remaining }]) => remaining,
    'RESETS AT': ([, { resets_at }]) => resets_at,
  })
}

async function metrics(metric: string, { window }: { window: string }): Promise<number> {
  const client = await serviceClient()
  const query = new URLSearchParams({ metric, window })
  return printJson(await client.get(`/v1/analytics/query?${query}`))
}

const FLAGS: readonly Flag[] = [
  ['--tenant <id>', 'Quotas of this tenant, which count all of its workspaces.'],
  WORKSPACE,
  JSON_FLAG,
]

export function quotaVerbs(program: Command): void {
  const quota = program.command('quota').description('Manage the quotas of a workspace or a tenant.')
  addVerb(quota, 'show', 'Print quotas and their usage.', show, FLAGS)
  addVerb(quota, 'set <name> <limit>', 'Set a quota. A limit of -1 means unlimited.', set, FLAGS)
  addVerb(program, 'metrics <metric>', 'Print a metric of the workspace.', metrics, [
    ['--window <duration>', 'Time window, such as 30m, 1h or 7d.', '1h'],
  ])
}
