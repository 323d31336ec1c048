/** The platform that the clients use: a hosted server with all kinds of tools, a person, and a client with a document. */

import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { ApiClient, fetchToken } from '../../../../src/cli/client.ts'
import { Browser, REDIRECT, signIn, type TestAccount } from '../../../support/clients/page-browser.ts'
import { openTlsServer, type TlsServer } from '../../../support/servers/tls-server.ts'
import { type Running, type Started, startPlatform } from '../../../support/stack/start.ts'

export interface Check {
  readonly name: string
  /** Rejects if the client fails. */
  readonly run: () => Promise<void>
}

/** @returns a function that runs the work with its first call only */
export function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined
  return () => {
    done ??= work()
    return done
  }
}

/** The ways in which a client becomes known to the issuer. */
export const IDENTITIES = ['registered', 'document'] as const

export interface World {
  /** URLs of the MCP endpoints of the hosted server and of the platform server. */
  readonly desk: string
  readonly platform: string
  readonly workspaceId: string
  /** A document of the hosted server, as a resource. */
  readonly orderUri: string
  /** Tokens with all scopes, for the Inspector. */
  readonly tokens: { readonly desk: string; readonly platform: string }
  /** The id of a client that a document describes. */
  readonly documentId: string
  /** `GET <url>?url=…` opens a page as the person does, and answers with the URL that the client is sent to. */
  readonly browserUrl: string
  /**
   * Opens a page as the person does: signs in, consents.
   * @param redirectUri of the client; by default that of the SDKs here
   * @returns the URL that the client is sent to
   */
  visit(url: string, redirectUri?: string): Promise<URL>
  close(): Promise<void>
}

const ORDERS = {
  description: 'Orders of customers.',
  properties: {
    number: { type: 'string', description: 'Number of the order.' },
    status: { type: 'string', enum: ['open', 'late', 'paid'] },
    cents: { type: 'integer', minimum: 0 },
    tags: { type: 'array', items: { type: 'string' } },
  },
  required: ['number', 'status'],
  additionalProperties: false,
}
const QUOTE = `export const tool = { description: 'Quotes the price of an order.', readOnly: true }
export const input = { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'], additionalProperties: false }
export const output = { type: 'object', properties: { price: { type: 'integer' } }, required: ['price'] }
export default ({ cents }) => ({ price: cents + 500 })`
const PLAIN = 'export default (input) => ({ echo: input })'
const FLOWS = [
  `document: { dsl: '1.0.3', namespace: shop, name: refund, version: '1.0.0', summary: Refunds an order. }
input:
  schema:
    document:
      type: object
      properties: { number: { type: string, description: Number of the order. } }
      required: [number]
      additionalProperties: false
do:
  - done: { set: { refunded: '\${ .number }' } }
`,
  `document: { dsl: '1.0.3', namespace: shop, name: deliver, version: '1.0.0', summary: Delivers an order. }
do:
  - drive: { wait: { seconds: 4 } }
  - done: { set: { delivered: true } }
`,
]
const PROMPTS = {
  remind: {
    description: 'Writes a reminder.',
    arguments: [{ name: 'customer', description: 'Name of the customer.', required: true }],
    messages: [{ role: 'user', content: { type: 'text', text: 'Remind {{customer}}.' } }],
  },
}
const RESOURCES = {
  policy: { uri: 'guide://refunds', mime_type: 'text/plain', text: 'Refunds take five days.' },
}

interface Admin {
  readonly api: ApiClient
  readonly running: Running
  readonly workspaceId: string
  readonly tenantId: string
}

/** Starts the platform. @param folder for its files */
export async function openWorld(folder: string): Promise<World> {
  const documents = await openTlsServer((request, response) => {
    const body = {
      client_id: `${documents.origin}${request.url}`,
      client_name: 'Documented client',
      redirect_uris: [REDIRECT],
      token_endpoint_auth_method: 'none',
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  const authorities = join(folder, 'authorities.pem')
  await writeFile(authorities, documents.certificate)
  const env = { NODE_EXTRA_CA_CERTS: authorities, TENON_CLIENT_ID_HOSTS: documents.host }
  const started = await startPlatform(folder, { env })
  try {
    return await fill(started, documents)
  } catch (error) {
    await documents.close()
    await started.stop()
    throw error
  }
}

async function fill({ running, stop }: Started, documents: TlsServer): Promise<World> {
  const admin = await createWorkspace(running)
  const orderId = await createSources(admin)
  const path = await publishServer(admin)
  const person = await createPerson(admin)
  const browser = await serveBrowser(person)
  const { url } = running
  return {
    desk: `${url}${path}`,
    platform: `${url}/v1/mcp/platform/mcp`,
    workspaceId: admin.workspaceId,
    orderUri: `tenon://orders/${orderId}`,
    tokens: await tokensFor(admin, `${url}${path}`),
    documentId: `${documents.origin}/clients/one.json`,
    browserUrl: browser.url,
    visit: (page, redirectUri = REDIRECT) => signIn(new Browser(redirectUri), { url: page }, person),
    close: async () => {
      browser.close()
      await documents.close()
      await stop()
    },
  }
}

async function createWorkspace(running: Running): Promise<Admin> {
  const { url, clientId, clientSecret } = running
  const api = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const { id: tenantId } = await api.post<{ id: string }>('/v1/tenants', { name: 'Shop', slug: 'shop' }, 30)
  const body = { tenant_id: tenantId, name: 'Shop', slug: 'shop' }
  const { id: workspaceId } = await api.post<{ id: string }>('/v1/workspaces', body, 30)
  return { api, running, tenantId, workspaceId }
}

/** Creates a declared and an undeclared collection, functions and flows. @returns the id of an order */
async function createSources({ api, running, workspaceId: workspace_id }: Admin): Promise<string> {
  const schema = { collection: 'orders', store: 'relational', schema: ORDERS, mode: 'enforce' }
  await api.post('/v1/schemas', { workspace_id, ...schema })
  await api.post('/v1/functions', { workspace_id, name: 'quote', source: QUOTE })
  await api.post('/v1/functions', { workspace_id, name: 'plain', source: PLAIN })
  await api.post('/v1/services/configure', { workspace_id, experimental: ['mcp.flow_tools'] })
  for (const source of FLOWS) {
    const definitions = `/v1/flows/workspaces/${workspace_id}/definitions`
    const { id } = await api.post<{ id: string }>(definitions, { source })
    await api.post(`${definitions}/${id}/versions`, {})
  }
  const key = { workspace_id, kind: 'service', name: 'seed' }
  const { key: apikey } = await api.post<{ key: string }>('/v1/api-keys', key)
  const data = new ApiClient(running.url, { apikey })
  await data.post('/v1/collections/notes/documents', { text: 'hello', rank: 1 })
  const order = { number: 'A1', status: 'late', cents: 900 }
  return (await data.post<{ id: string }>('/v1/collections/orders/documents', order)).id
}

/** Publishes everything that the workspace has. @returns the path of the endpoint */
async function publishServer({ api, workspaceId: workspace_id }: Admin): Promise<string> {
  const servers = `/v1/mcp/workspaces/${workspace_id}/servers`
  const { path } = await api.post<{ path: string }>(servers, { name: 'Desk', slug: 'desk' })
  const { data } = await api.call<{ data: { candidate: string }[] }>('GET', `${servers}/desk/candidates`)
  const tools = Object.fromEntries(
    data.map(({ candidate }) => [
      candidate,
      { enabled: true, ...(candidate === 'flows:deliver:run' && { limits: { wait_seconds: 1 } }) },
    ]),
  )
  await api.call('PUT', `${servers}/desk/curation`, { tools, prompts: PROMPTS, resources: RESOURCES })
  await api.post(`${servers}/desk/publish`, {})
  return path
}

async function createPerson({ api, tenantId, workspaceId }: Admin): Promise<TestAccount> {
  const email = 'ada@example.test'
  const body = { role: 'workspace_admin', tenant_id: tenantId, workspace_id: workspaceId, email }
  const made = await api.post<{ id: string; invitation_url: string }>('/v1/accounts', body)
  const password = 'correct horse battery'
  const browser = new Browser('nowhere:')
  const set = await browser.submit(await browser.open(made.invitation_url), { password, again: password })
  if (set.status !== 200) throw new Error(set.html)
  return { id: made.id, email, password, tenant: 'shop' }
}

async function tokensFor({ api, running, workspaceId }: Admin, resource: string): Promise<World['tokens']> {
  const { url, clientId, clientSecret } = running
  const path = `/v1/mcp/workspaces/${workspaceId}/servers/desk/versions`
  const { data } = await api.call<{ data: { tools: { name: string }[] }[] }>('GET', path)
  const scope = data[0]?.tools.map(({ name }) => `mcp:desk:${name}`).join(' ') ?? ''
  return {
    desk: await fetchToken(url, clientId, clientSecret, { resource, scope }),
    platform: await fetchToken(url, clientId, clientSecret),
  }
}

/** For clients in another language. */
async function serveBrowser(person: TestAccount): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    const page = new URL(request.url ?? '', 'http://127.0.0.1').searchParams.get('url') ?? ''
    signIn(new Browser(REDIRECT), { url: page }, person).then(
      ({ href }) => response.end(href),
      (error: Error) => response.writeHead(500).end(error.message),
    )
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/`, close: () => server.close() }
}
