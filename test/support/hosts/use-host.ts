/** Signs in and calls tools as a host of agents does (hosts.ts), request by request, and returns what its model would be shown. */

import { deepStrictEqual as equal, match, ok } from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { Host } from './hosts.ts'

/** The server and the user of a host. */
export interface HostUse {
  readonly endpoint: string
  /** Signs the user in and consents. @returns the URL that the client is sent to */
  readonly visit: (url: string, redirectUri: string) => Promise<URL>
  /** Calls of tools, by a name for the caller of this function. */
  readonly calls: Readonly<Record<string, { readonly name: string; readonly arguments: object }>>
}

/** What the model is shown of each call: one text for each form of the result that the host passes on. */
export interface HostView {
  readonly tools: readonly string[]
  readonly texts: Readonly<Record<string, readonly string[]>>
}

interface Session {
  readonly host: Host
  readonly endpoint: string
  readonly headers: Record<string, string>
}

/** Registers, signs in, initializes, lists the tools and calls some. Rejects at the first response that the host could not go on with. */
export async function useHost(host: Host, { endpoint, visit, calls }: HostUse): Promise<HostView> {
  const token = await signInAs(host, endpoint, visit)
  const session = { host, endpoint, headers: { authorization: `Bearer ${token}` } }
  await initialize(session)
  const { tools } = (await send(session, 'tools/list')) as { tools: { name: string }[] }
  const texts: Record<string, string[]> = {}
  for (const [key, params] of Object.entries(calls))
    texts[key] = shownOf(host, (await send(session, 'tools/call', params)) as unknown as Result)
  return { tools: tools.map(({ name }) => name), texts }
}

async function signInAs(host: Host, endpoint: string, visit: HostUse['visit']): Promise<string> {
  for (const method of host.probes ?? []) equal((await fetch(endpoint, { method })).status, 405, method)
  const { resource, scope, issuer } = await discover(host, endpoint)
  const { client_id } = await register(host, issuer)
  const verifier = randomBytes(32).toString('base64url')
  const wanted = new URLSearchParams({
    ...{ client_id, resource, response_type: 'code', redirect_uri: host.redirectUri, state: 'a b' },
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...(scope !== undefined && { scope }),
  })
  const end = await visit(`${issuer.authorization_endpoint}?${wanted}`, host.redirectUri)
  equal([end.searchParams.get('state'), end.searchParams.get('iss')], ['a b', issuer.issuer])
  const exchange = {
    ...{ grant_type: 'authorization_code', code: end.searchParams.get('code') ?? '', client_id, resource },
    ...{ redirect_uri: host.redirectUri, code_verifier: verifier },
  }
  const first = await tokens(issuer, exchange)
  ok(first.refresh_token, 'there is no refresh token')
  const refresh = { grant_type: 'refresh_token', refresh_token: first.refresh_token, client_id, resource }
  return (await tokens(issuer, refresh)).access_token
}

interface Issuer {
  readonly issuer: string
  readonly authorization_endpoint: string
  readonly token_endpoint: string
  readonly registration_endpoint: string
  readonly code_challenge_methods_supported: readonly string[]
}

/** From a bare 401 by the metadata of the resource to that of the issuer. */
async function discover({ discovery, scopesFrom }: Host, endpoint: string) {
  const refused = await fetch(endpoint, { method: 'POST', headers: JSON_BODY, body: '{}' })
  equal(refused.status, 401)
  const challenge = refused.headers.get('www-authenticate') ?? ''
  const [, metadataUrl = ''] = /resource_metadata="([^"]+)"/.exec(challenge) ?? []
  const metadata = await json<{
    resource: string
    authorization_servers: string[]
    scopes_supported: string[]
  }>(metadataUrl)
  equal(metadata.resource, endpoint)
  const { origin, pathname } = new URL(metadata.authorization_servers[0] ?? '')
  const path = discovery === 'issuer' ? pathname : ''
  const issuer = await json<Issuer>(`${origin}/.well-known/oauth-authorization-server${path}`)
  equal(issuer.issuer, metadata.authorization_servers[0])
  ok(issuer.code_challenge_methods_supported.includes('S256'))
  const scopes = {
    challenge: /scope="([^"]+)"/.exec(challenge)?.[1],
    metadata: metadata.scopes_supported.join(' '),
    nowhere: undefined,
  }
  return { resource: metadata.resource, issuer, scope: scopes[scopesFrom] }
}

async function register({ registration, redirectUri }: Host, { registration_endpoint }: Issuer) {
  const made = await json<{ client_id: string; redirect_uris: string[]; client_secret?: string }>(
    registration_endpoint,
    { method: 'POST', headers: JSON_BODY, body: JSON.stringify(registration) },
    201,
  )
  ok(made.redirect_uris.includes(redirectUri), `${redirectUri} was left out`)
  equal(made.client_secret, undefined)
  return made
}

const tokens = ({ token_endpoint }: Issuer, parameters: Record<string, string>) =>
  json<{ access_token: string; refresh_token: string }>(token_endpoint, {
    method: 'POST',
    body: new URLSearchParams(parameters),
  })

async function initialize(session: Session): Promise<void> {
  const { host, endpoint, headers } = session
  const clientInfo = { name: String(host.registration['client_name']), version: '1.0.0' }
  const initialize = { protocolVersion: host.protocol, capabilities: {}, clientInfo }
  const response = await post(session, { jsonrpc: '2.0', id: 0, method: 'initialize', params: initialize })
  const { protocolVersion } = resultIn(await response.text()) as { protocolVersion: string }
  equal(protocolVersion, host.protocol)
  const id = response.headers.get('mcp-session-id')
  if (id !== null) headers['mcp-session-id'] = id
  if (protocolVersion >= '2025-06-18') headers['mcp-protocol-version'] = protocolVersion
  equal((await post(session, { jsonrpc: '2.0', method: 'notifications/initialized' })).status, 202)
  const stop = new AbortController()
  const stream = await fetch(endpoint, {
    headers: { ...headers, accept: 'text/event-stream' },
    signal: stop.signal,
  })
  match(String(stream.status), /^(200|405)$/, 'hosts take 405 for no stream, and give up at other errors')
  stop.abort()
}

let lastId = 0
async function send(session: Session, method: string, params: object = {}) {
  lastId += 1
  const response = await post(session, { jsonrpc: '2.0', id: lastId, method, params })
  const text = await response.text()
  equal(response.status, 200, text)
  return resultIn(text)
}

const JSON_BODY = { 'content-type': 'application/json' }
const ACCEPT = 'application/json, text/event-stream'

const post = ({ host, endpoint, headers }: Session, body: object) =>
  fetch(endpoint, {
    method: 'POST',
    headers: { ...JSON_BODY, accept: host.accept ?? ACCEPT, ...headers },
    body: JSON.stringify(body),
  })

/** The result in a response of either form: a JSON document, or a stream of events whose last one is the response. */
function resultIn(text: string): Record<string, unknown> {
  const events = [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => data)
  const message = JSON.parse(events.at(-1) ?? text) as { result?: Record<string, unknown> }
  ok(message.result, text)
  return message.result
}

interface Result {
  readonly content: readonly { readonly text?: string }[]
  readonly structuredContent?: object
}

function shownOf({ shows }: Host, { content, structuredContent }: Result): string[] {
  const text = content.map((part) => part.text ?? '').join('\n')
  if (structuredContent === undefined || shows === 'text') return [text]
  const structure = JSON.stringify(structuredContent)
  return shows === 'both' ? [text, structure] : [structure]
}

async function json<T>(url: string, init: RequestInit = {}, status = 200): Promise<T> {
  const response = await fetch(url, init)
  const text = await response.text()
  equal(response.status, status, `${url}: ${text}`)
  return JSON.parse(text) as T
}
