/** The services of the first run, one part each: used through the public API, and seen to work. */

import { readFile } from 'node:fs/promises'
import { ApiError } from '../client.ts'
import type { Part, Place } from './place.ts'

const EXAMPLE = new URL('../../../examples/greet.ts', import.meta.url)
const SERVER = 'demo'

const document: Part = async ({ data }) => {
  const { id } = await data.post<{ id: string }>('/v1/collections/notes/documents', { text: 'first run' })
  const path = '/v1/collections/notes/documents?text=eq.first run&order=_created_at.desc&page[size]=1'
  const found = await data.get<{ data: { id: string }[] }>(encodeURI(path))
  if (found.data[0]?.id !== id) throw new Error('The document that was created was not found again.')
  return { title: 'document', text: `notes/${id}, created and found by a filter` }
}

const object: Part = async ({ url, admin, workspaceId, serviceKey }) => {
  const { bucket } = await admin.get<{ bucket: string }>(`/v1/workspaces/${workspaceId}`)
  const at = `${url}/v1/objects/${bucket}/hello.txt`
  const headers = { apikey: serviceKey, 'content-type': 'text/plain' }
  const sent = await fetch(at, { method: 'PUT', headers, body: 'Hello from an object.' })
  if (sent.status === 409)
    return { title: 'object', text: 'none: this workspace was made before objects were; a new one has them' }
  const got = await fetch(at, { headers: { apikey: serviceKey } })
  const bytes = (await got.arrayBuffer()).byteLength
  if (!sent.ok || !got.ok) throw new Error(`The object store answered ${sent.status} and ${got.status}.`)
  return { title: 'object', text: `${bucket}/hello.txt, ${bytes} bytes written and read` }
}

/** Subscribes, publishes and hears it. */
const event: Part = async ({ url, data, serviceKey }) => {
  const stop = new AbortController()
  const headers = { apikey: serviceKey }
  const stream = await fetch(`${url}/v1/events/subscribe?topic=demo.greeted`, {
    headers,
    signal: stop.signal,
  })
  const startedMs = performance.now()
  const { id } = await data.post<{ id: string }>('/v1/events/publish', { topic: 'demo.greeted', data: 1 })
  const decoder = new TextDecoder()
  let heard = ''
  for await (const chunk of stream.body ?? []) {
    heard += decoder.decode(chunk, { stream: true })
    if (heard.includes(id)) break
  }
  stop.abort()
  return { title: 'event', text: `demo.greeted, heard after ${Math.ceil(performance.now() - startedMs)} ms` }
}

const call: Part = async ({ admin, data, workspaceId: workspace_id }) => {
  const source = await readFile(EXAMPLE, 'utf8')
  const known = await admin.get<{ data: { name: string; sha256: string }[] }>(
    `/v1/functions?workspace_id=${workspace_id}&page[size]=200`,
  )
  if (!known.data.some(({ name }) => name === 'greet'))
    await admin.post('/v1/functions', { workspace_id, name: 'greet', source })
  const result = await data.post<unknown>('/v1/functions/greet/invoke', { name: 'Ada' })
  return { title: 'function', text: `greet({"name":"Ada"}) → ${JSON.stringify(result)}` }
}

/** Notes to read and the function to call, as tools of a server of the workspace's own. */
const mcp: Part = async (place) => {
  const base = `/v1/mcp/workspaces/${place.workspaceId}/servers`
  const { path, state } = await server(place, base)
  if (state !== 'published') {
    const tools = {
      'collections:notes:list': { enabled: true },
      'collections:notes:get': { enabled: true },
      'functions:greet:invoke': { enabled: true },
    }
    await place.admin.call('PUT', `${base}/${SERVER}/curation`, { tools })
    await place.admin.post(`${base}/${SERVER}/publish`, {})
  }
  const body = { tool: 'notes_list', arguments: { page_size: 1 } }
  const { is_error } = await place.admin.post<{ is_error: boolean }>(`${base}/${SERVER}/call`, body)
  if (is_error) throw new Error('The tool notes_list failed.')
  return { title: 'MCP server', text: `${place.url}${path}` }
}

async function server({ admin }: Place, base: string): Promise<{ path: string; state: string }> {
  try {
    return await admin.get(`${base}/${SERVER}`)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error
    return admin.post(base, { name: 'Demo', slug: SERVER })
  }
}

export const PARTS: readonly (readonly [string, Part])[] = [
  ['creating a document and finding it', document],
  ['writing an object and reading it', object],
  ['publishing an event and hearing it', event],
  ['deploying examples/greet.ts and calling it', call],
  ['publishing an MCP server', mcp],
]
