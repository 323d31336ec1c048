/** `tenon demo`: creates a tenant through the public API and uses each service once, as the first `npm start` does. */

import { readFile } from 'node:fs/promises'
import { ApiClient, ApiError, fetchToken } from '../client.ts'
import type { Execution } from '../flows/execution.ts'
import { publishSource } from '../flows/publish.ts'
import { need, readSettings, type Settings } from '../settings.ts'
import { printJson } from '../verb.ts'
import { type DemoResult, PARTS } from './parts.ts'

const WAIT_S = 30
const FLOW_FILE = new URL('../../../flows-dsl/examples/hello.yaml', import.meta.url)

interface Named {
  readonly id: string
  readonly slug: string
  readonly state: string
}

interface Keys {
  readonly anonKey?: string | undefined
  readonly serviceKey?: string | undefined
  /** The keys are new. */
  readonly fresh: boolean
}

/** The run of the sample flow. */
interface DemoRun {
  readonly flow: string
  readonly version: number
  readonly execution: Execution
}

/** The result of the demo. A member is absent if its step failed, or if the step is for a new tenant alone. */
export interface Demo extends Keys {
  readonly tenantId?: string
  readonly workspaceId?: string
  /** Null: the workspace has none. */
  readonly bucket?: string | null
  /** The OAuth client of `tenon login`. */
  readonly loginClientId?: string | undefined
  /** The id of the tenant or the workspace that is suspended. */
  readonly suspended?: string
  /** One line for each service that was used. */
  readonly results: readonly DemoResult[]
  readonly run?: DemoRun
  /** One line for each step that failed: its name and the reason. */
  readonly failed: readonly string[]
}

/** Shows a step when it begins, and the reason if it fails. */
export interface DemoScreen {
  step(name: string): void
  warn(line: string): void
}

/**
 * Finds or creates tenant, workspace and keys. Uses each service once if the tenant is new: afterwards the workspace belongs
 * to its user, who may have replaced or deleted anything in it. Never rejects: a step that fails is in `failed`.
 */
export async function makeDemo(
  launched: { readonly url: string; readonly clientId: string; readonly clientSecret: string },
  known: Settings,
  screen: DemoScreen,
): Promise<Demo> {
  const failed: string[] = []
  const attempt = async <T>(name: string, work: () => Promise<T>): Promise<T | undefined> => {
    screen.step(name)
    try {
      return await work()
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? error.message : String(error)}`)
      screen.warn(failed.at(-1) ?? name)
      return undefined
    }
  }
  const place = await attempt('provisioning the tenant "demo" and its workspace "main"', () =>
    findPlace(launched),
  )
  const mine = { anonKey: known['TENON_ANON_KEY'], serviceKey: known['TENON_SERVICE_KEY'], fresh: false }
  if (place === undefined) return { ...mine, results: [], failed }
  const { client, tenant, workspace, isNew } = place
  const keys = (await attempt('checking the keys', () => provideKeys(client, workspace.id, known))) ?? mine
  const loginClientId = await attempt('checking the client of `tenon login`', () =>
    loginClient(client, known),
  )
  const suspended = [tenant, workspace].find(({ state }) => state === 'suspended')?.id
  const bucket = await attempt('reading the bucket', async () => {
    const found = await client.get<{ bucket: string | null }>(`/v1/workspaces/${workspace.id}`)
    return found.bucket
  })
  const made = {
    ...{
      tenantId: tenant.id,
      workspaceId: workspace.id,
      ...(bucket !== undefined && { bucket }),
      ...keys,
      loginClientId,
      failed,
    },
    ...(suspended !== undefined && { suspended }),
  }
  if (!isNew) return { ...made, results: [] }
  const data = new ApiClient(launched.url, { apikey: keys.serviceKey ?? '' })
  const context = { workspaceId: workspace.id, admin: client, data }
  await attempt('opening the collections of the demo to its anon key', () => openCollections(context, screen))
  const results: (DemoResult | undefined)[] = []
  for (const [name, part] of PARTS) results.push(await attempt(name, () => part(context)))
  const run = await attempt('running flows-dsl/examples/hello.yaml on Temporal', () =>
    runSample(client, workspace.id),
  )
  return {
    ...{ ...made, results: results.filter((result) => result !== undefined) },
    ...(run !== undefined && { run }),
  }
}

/** The client of the operator, the tenant and its workspace. `isNew`: the tenant did not exist before. */
async function findPlace(launched: Parameters<typeof makeDemo>[0]) {
  const token = await fetchToken(launched.url, launched.clientId, launched.clientSecret)
  const client = new ApiClient(launched.url, { authorization: `Bearer ${token}` })
  const { found: tenant, isNew } = await findOrMake(client, '/v1/tenants', { name: 'Demo', slug: 'demo' })
  const { found: workspace } = await findOrMake(client, '/v1/workspaces', {
    name: 'Main',
    slug: 'main',
    tenant_id: tenant.id,
    environment: 'development',
  })
  return { client, tenant, workspace, isNew }
}

/** Other workspaces are closed to anon keys; here the first commands of the README read with one. */
async function openCollections(
  { admin, workspaceId: workspace_id }: { readonly admin: ApiClient; readonly workspaceId: string },
  screen: DemoScreen,
): Promise<void> {
  const body = { workspace_id, anon: { collections: 'read' } }
  await admin.post('/v1/services/configure', body)
  screen.warn(`demo only: POST /v1/services/configure ${JSON.stringify(body)}`)
}

async function runSample(client: ApiClient, workspaceId: string): Promise<DemoRun> {
  const base = `/v1/flows/workspaces/${workspaceId}`
  const { flow, version } = await publishSource(client, base, await readFile(FLOW_FILE, 'utf8'))
  const path = `${base}/definitions/${flow.name}/executions`
  const execution = await client.post<Execution>(path, { input: { name: 'Ada' } }, WAIT_S)
  if (execution.status !== 'completed')
    throw new Error(`${execution.id} is ${execution.status}: npx tenon flow show ${execution.id}`)
  return { flow: flow.name, version, execution }
}

async function findOrMake(
  client: ApiClient,
  path: string,
  wanted: Record<string, string>,
): Promise<{ found: Named; isNew: boolean }> {
  const { slug, tenant_id } = wanted
  const listed = await client.list<Named>(tenant_id === undefined ? path : `${path}?tenant_id=${tenant_id}`)
  const found = listed.find((one) => one.slug === slug)
  if (found !== undefined) return { found, isNew: false }
  return { found: await client.post<Named>(path, wanted, WAIT_S), isNew: true }
}

async function provideKeys(client: ApiClient, workspaceId: string, known: Settings): Promise<Keys> {
  const [anonKey, serviceKey] = [known['TENON_ANON_KEY'], known['TENON_SERVICE_KEY']]
  if (anonKey && serviceKey && (await works(client.url, anonKey)) && (await works(client.url, serviceKey))) {
    return { anonKey, serviceKey, fresh: false }
  }
  const make = async (kind: string) => {
    const body = { workspace_id: workspaceId, kind, name: `demo ${kind}` }
    return (await client.post<{ key: string }>('/v1/api-keys', body)).key
  }
  return { anonKey: await make('anon'), serviceKey: await make('service'), fresh: true }
}

/** The public client of `tenon login`, for accounts of all tenants. @returns its id, the known one if it still exists */
async function loginClient(client: ApiClient, known: Settings): Promise<string> {
  const path = '/v1/oauth-clients'
  const { TENON_LOGIN_CLIENT_ID: id } = known
  const found = id && (await client.get(`${path}/${encodeURIComponent(id)}`).then(() => id, absent))
  if (found) return found
  const body = { kind: 'public', name: 'tenon login', redirect_uris: ['http://127.0.0.1/callback'] }
  return (await client.post<{ client_id: string }>(path, body)).client_id
}

/** @throws the error, unless it says that there is no such thing */
function absent(error: unknown): undefined {
  if (!(error instanceof ApiError) || error.status !== 404) throw error
}

/** @returns true if the platform knows the key, also while its workspace is suspended */
async function works(url: string, apikey: string): Promise<boolean> {
  try {
    await new ApiClient(url, { apikey }).get('/v1/me')
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return error.status !== 401
    throw error
  }
}

/** Runs the demo at TENON_URL, and prints it as JSON. @returns the exit code */
export async function printDemo(): Promise<number> {
  const settings = await readSettings()
  const platform = {
    url: need(settings, 'TENON_URL'),
    clientId: need(settings, 'TENON_CLIENT_ID'),
    clientSecret: need(settings, 'TENON_CLIENT_SECRET'),
  }
  const print = (line: string) => process.stderr.write(`${line}\n`)
  const demo = await makeDemo(platform, settings, {
    step: print,
    warn: (line) => print(`warning: ${line}`),
  })
  printJson(demo)
  return demo.failed.length === 0 ? 0 : 1
}
