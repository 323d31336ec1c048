/** The first tenant: made through the public API like any other, so the first run proves the whole way. */

import { readFile } from 'node:fs/promises'
import { ApiClient, ApiError, fetchToken } from '../client.ts'
import { publishSource } from '../flow.ts'
import type { Execution } from '../flows/execution.ts'
import { need, readSettings, type Settings } from '../settings.ts'
import { PARTS } from './parts.ts'
import type { Proof } from './place.ts'

const WAIT_S = 30
const FLOW_FILE = new URL('../../../flows-dsl/examples/hello.yaml', import.meta.url)

interface Named {
  readonly id: string
  readonly slug: string
}

export interface Demo {
  readonly tenantId: string
  readonly workspaceId: string
  readonly anonKey: string
  readonly serviceKey: string
  /** Whether the keys were made just now. */
  readonly fresh: boolean
  /** Each service, seen to work. */
  readonly proofs: readonly Proof[]
  readonly flow: string
  readonly version: number
  readonly execution: Execution
}

/** Idempotent: what is there is found again; keys that still work are kept. */
export async function makeDemo(
  launched: { readonly url: string; readonly clientId: string; readonly clientSecret: string },
  known: Settings,
  step: (line: string) => void,
): Promise<Demo> {
  const token = await fetchToken(launched.url, launched.clientId, launched.clientSecret)
  const client = new ApiClient(launched.url, { authorization: `Bearer ${token}` })
  step('provisioning the tenant "demo"')
  const tenant = await findOrMake(client, '/v1/tenants', { name: 'Demo', slug: 'demo' })
  step('provisioning the workspace "main"')
  const workspace = await findOrMake(client, '/v1/workspaces', {
    name: 'Main',
    slug: 'main',
    tenant_id: tenant.id,
  })
  const keys = await keysOf(client, workspace.id, known)
  const data = new ApiClient(launched.url, { apikey: keys.serviceKey })
  const { url } = launched
  const place = { url, workspaceId: workspace.id, admin: client, data, serviceKey: keys.serviceKey }
  const proofs: Proof[] = []
  for (const [what, part] of PARTS) {
    step(what)
    proofs.push(await part(place))
  }
  step('publishing flows-dsl/examples/hello.yaml')
  const base = `/v1/flows/workspaces/${workspace.id}`
  const { flow, version } = await publishOnce(client, base, await readFile(FLOW_FILE, 'utf8'))
  step(`running ${flow} v${version} on Temporal`)
  const path = `${base}/definitions/${flow}/executions`
  const execution = await client.post<Execution>(path, { input: { name: 'Ada' } }, WAIT_S)
  return { tenantId: tenant.id, workspaceId: workspace.id, ...keys, proofs, flow, version, execution }
}

async function findOrMake(client: ApiClient, path: string, wanted: Record<string, string>): Promise<Named> {
  const scope = wanted['tenant_id'] === undefined ? '' : `&tenant_id=${wanted['tenant_id']}`
  let after = ''
  do {
    const cursor = after === '' ? '' : `&page[after]=${after}`
    const { data, page } = await client.get<{ data: Named[]; page: { next: string | null } }>(
      `${path}?page[size]=200${scope}${cursor}`,
    )
    const found = data.find(({ slug }) => slug === wanted['slug'])
    if (found !== undefined) return found
    after = page.next ?? ''
  } while (after !== '')
  return client.post<Named>(path, wanted, WAIT_S)
}

type Keys = Pick<Demo, 'anonKey' | 'serviceKey' | 'fresh'>

async function keysOf(client: ApiClient, workspaceId: string, known: Settings): Promise<Keys> {
  const [anonKey, serviceKey] = [known['TENON_ANON_KEY'], known['TENON_SERVICE_KEY']]
  if (anonKey && serviceKey && (await works(client.url, anonKey)) && (await works(client.url, serviceKey))) {
    return { anonKey, serviceKey, fresh: false }
  }
  const make = async (kind: string) =>
    (
      await client.post<{ key: string }>('/v1/api-keys', {
        workspace_id: workspaceId,
        kind,
        name: `demo ${kind}`,
      })
    ).key
  return { anonKey: await make('anon'), serviceKey: await make('service'), fresh: true }
}

async function works(url: string, apikey: string): Promise<boolean> {
  try {
    await new ApiClient(url, { apikey }).get('/v1/collections/greetings/documents?page[size]=1')
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return false
    throw error
  }
}

/** `tenon demo`: the same, for a platform that somebody else started. @returns the exit code */
export async function printDemo(): Promise<number> {
  const settings = await readSettings()
  const [url, clientId, clientSecret] = ['TENON_URL', 'TENON_CLIENT_ID', 'TENON_CLIENT_SECRET'].map((name) =>
    need(settings, name),
  )
  const platform = { url: url ?? '', clientId: clientId ?? '', clientSecret: clientSecret ?? '' }
  const demo = await makeDemo(platform, settings, (line) => process.stderr.write(`${line}\n`))
  process.stdout.write(`${JSON.stringify(demo, null, 2)}\n`)
  return demo.execution.status === 'completed' ? 0 : 1
}

interface Draft {
  readonly name: string
  readonly source: string
  readonly latest_version: number
}

/** A second start publishes nothing where the source is the same. */
async function publishOnce(
  client: ApiClient,
  base: string,
  source: string,
): Promise<{ flow: string; version: number }> {
  const { data } = await client.get<{ data: Draft[] }>(`${base}/definitions?page[size]=200`)
  const same = data.find((draft) => draft.source === source && draft.latest_version > 0)
  if (same !== undefined) return { flow: same.name, version: same.latest_version }
  const { flow, version } = await publishSource(client, base, source)
  return { flow: flow.name, version }
}
