/** The steps of the demo: each uses one service through the public API. */

import { readFile } from 'node:fs/promises'
import { type ApiClient, ApiError, parseFrames } from '../client.ts'

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
  for await (const received of parseFrames(stream)) if (received.data.includes(published.id)) break
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

/** The default of 1 would leave no room for a server of the user. */
const SERVERS_MAX = 10

/** Publishes a server with tools to read notes and to call the function. */
const mcp: Part = async (context) => {
  const { admin, workspaceId: workspace_id } = context
  await admin.call('PUT', '/v1/quotas', { workspace_id, limits: { mcp_servers: SERVERS_MAX } })
  const base = `/v1/mcp/workspaces/${workspace_id}/servers`
  const { path, state } = await server(context, base)
  if (state !== 'published') {
    const tools = {
      'collections:notes:list': { enabled: true },
      'collections:notes:get': { enabled: true },
      'functions:greet:invoke': { enabled: true },
    }
    await admin.call('PUT', `${base}/${SERVER}/curation`, { tools })
    await admin.post(`${base}/${SERVER}/publish`, {})
  }
  const body = { tool: 'notes_list', arguments: { limit: 1 } }
  const { is_error } = await admin.post<{ is_error: boolean }>(`${base}/${SERVER}/call`, body)
  if (is_error) throw new Error('The tool notes_list failed.')
  return { title: 'MCP server', text: `${admin.url}${path}` }
}

async function server({ admin }: DemoContext, base: string): Promise<{ path: string; state: string }> {
  try {
    return await admin.get(`${base}/${SERVER}`)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    return admin.post(base, { name: 'Demo', slug: SERVER })
  }
}

/** In the order in which they run. Their names are shown. */
export const PARTS: readonly (readonly [string, Part])[] = [
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
export interface DemoResult {
  readonly title: string
  readonly text: string
}

/** Uses one service through the public API. Idempotent. */
type Part = (context: DemoContext) => Promise<DemoResult>
