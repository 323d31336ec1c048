/** `tenon demo`: creates a tenant through the public API and uses each service once, as the first run of `npm start`. */

import { readFile } from 'node:fs/promises'
import { ApiClient, ApiError, fetchToken, framesOf } from '../client.ts'
import type { Execution } from '../flows/execution.ts'
import { publishSource } from '../flows/publish.ts'
import { need, readSettings, type Settings } from '../settings.ts'
import { printJson } from '../verb.ts'

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
  /** The keys are new. */
  readonly fresh: boolean
  /** One line for each service that was used. */
  readonly results: readonly DemoResult[]
  readonly flow: string
  readonly version: number
  readonly execution: Execution
}

/** Idempotent: finds what an earlier run has created, and keeps keys that still work. */
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
  const context = { workspaceId: workspace.id, admin: client, data }
  const results: DemoResult[] = []
  for (const [what, part] of PARTS) {
    step(what)
    results.push(await part(context))
  }
  step('publishing flows-dsl/examples/hello.yaml')
  const base = `/v1/flows/workspaces/${workspace.id}`
  const { flow, version } = await publishOnce(client, base, await readFile(FLOW_FILE, 'utf8'))
  step(`running ${flow} v${version} on Temporal`)
  const path = `${base}/definitions/${flow}/executions`
  const execution = await client.post<Execution>(path, { input: { name: 'Ada' } }, WAIT_S)
  return { tenantId: tenant.id, workspaceId: workspace.id, ...keys, results, flow, version, execution }
}

async function findOrMake(client: ApiClient, path: string, wanted: Record<string, string>): Promise<Named> {
  const { slug, tenant_id } = wanted
  const listed = await client.list<Named>(tenant_id === undefined ? path : `${path}?tenant_id=${tenant_id}`)
  return listed.find((one) => one.slug === slug) ?? client.post<Named>(path, wanted, WAIT_S)
}

type Keys = Pick<Demo, 'anonKey' | 'serviceKey' | 'fresh'>

async function keysOf(client: ApiClient, workspaceId: string, known: Settings): Promise<Keys> {
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

async function works(url: string, apikey: string): Promise<boolean> {
  try {
    await new ApiClient(url, { apikey }).get('/v1/collections/greetings/documents?page[size]=1')
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return false
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
  const demo = await makeDemo(platform, settings, (line) => process.stderr.write(`${line}\n`))
  printJson(demo)
  return demo.execution.status === 'completed' ? 0 : 1
}

interface Draft {
  readonly name: string
  readonly source: string
  readonly latest_version: number
}

/** Publishes the source, unless a draft with the same source is published. */
async function publishOnce(
  client: ApiClient,
  base: string,
  source: string,
): Promise<{ flow: string; version: number }> {
  const drafts = await client.list<Draft>(`${base}/definitions`)
  const same = drafts.find((draft) => draft.source === source && draft.latest_version > 0)
  if (same !== undefined) return { flow: same.name, version: same.latest_version }
  const { flow, version } = await publishSource(client, base, source)
  return { flow: flow.name, version }
}

const EXAMPLE = new URL('../../../examples/greet.ts', import.meta.url)
const SERVER = 'demo'

const document: Part = async ({ data }) => {
  const { id } = await data.post<{ id: string }>('/v1/collections/notes/documents', { text: 'first run' })
  const path = '/v1/collections/notes/documents?text=eq.first run&order=_created_at.desc&page[size]=1'
  const found = await data.get<{ data: { id: string }[] }>(encodeURI(path))
  if (found.data[0]?.id !== id) throw new Error('The document that was created was not found again.')
  return { title: 'document', text: `notes/${id}, created and found by a filter` }
}

const object: Part = async ({ admin, data, workspaceId }) => {
  const { bucket } = await admin.get<{ bucket: string }>(`/v1/workspaces/${workspaceId}`)
  const path = `/v1/objects/${bucket}/hello.txt`
  const headers = { 'content-type': 'text/plain' }
  await data.send('PUT', path, { headers, body: 'Hello from an object.' })
  const bytes = (await (await data.send('GET', path)).arrayBuffer()).byteLength
  return { title: 'object', text: `${bucket}/hello.txt, ${bytes} bytes written and read` }
}

/** Subscribes to a topic, publishes an event, and receives it. */
const event: Part = async ({ data }) => {
  const stream = await data.send('GET', '/v1/events/subscribe?topic=demo.greeted')
  const startedMs = performance.now()
  const published = await data.post<{ id: string }>('/v1/events/publish', { topic: 'demo.greeted', data: 1 })
  // Leaving the loop closes the stream.
  for await (const received of framesOf(stream)) if (received.data.includes(published.id)) break
  const ms = Math.ceil(performance.now() - startedMs)
  return { title: 'event', text: `demo.greeted, received after ${ms} ms` }
}

const call: Part = async ({ admin, data, workspaceId: workspace_id }) => {
  const source = await readFile(EXAMPLE, 'utf8')
  const known = await admin.list<{ name: string }>(`/v1/functions?workspace_id=${workspace_id}`)
  if (!known.some(({ name }) => name === 'greet'))
    await admin.post('/v1/functions', { workspace_id, name: 'greet', source })
  const result = await data.post<unknown>('/v1/functions/greet/invoke', { name: 'Ada' })
  return { title: 'function', text: `greet({"name":"Ada"}) → ${JSON.stringify(result)}` }
}

/** Publishes a server with tools to read notes and to call the function. */
const mcp: Part = async (context) => {
  const base = `/v1/mcp/workspaces/${context.workspaceId}/servers`
  const { path, state } = await server(context, base)
  if (state !== 'published') {
    const tools = {
      'collections:notes:list': { enabled: true },
      'collections:notes:get': { enabled: true },
      'functions:greet:invoke': { enabled: true },
    }
    await context.admin.call('PUT', `${base}/${SERVER}/curation`, { tools })
    await context.admin.post(`${base}/${SERVER}/publish`, {})
  }
  const body = { tool: 'notes_list', arguments: { limit: 1 } }
  const { is_error } = await context.admin.post<{ is_error: boolean }>(`${base}/${SERVER}/call`, body)
  if (is_error) throw new Error('The tool notes_list failed.')
  return { title: 'MCP server', text: `${context.admin.url}${path}` }
}

async function server({ admin }: DemoContext, base: string): Promise<{ path: string; state: string }> {
  try {
    return await admin.get(`${base}/${SERVER}`)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    return admin.post(base, { name: 'Demo', slug: SERVER })
  }
}

const PARTS: readonly (readonly [string, Part])[] = [
  ['creating a document and finding it', document],
  ['writing an object and reading it', object],
  ['publishing an event and receiving it', event],
  ['deploying examples/greet.ts and calling it', call],
  ['publishing an MCP server', mcp],
]

interface DemoContext {
  readonly workspaceId: string
  /** With the rights of the operator. */
  readonly admin: ApiClient
  /** With the service key of the workspace. */
  readonly data: ApiClient
}

/** A line of the output for a service that was used. */
interface DemoResult {
  readonly title: string
  readonly text: string
}

/** Uses one service through the public API. Idempotent. */
type Part = (context: DemoContext) => Promise<DemoResult>
