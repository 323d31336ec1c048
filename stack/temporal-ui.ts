/** Reverse proxy for the Temporal UI, which itself checks neither the host name nor the origin of a request. */

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as open,
  type ServerResponse,
} from 'node:http'
import { pipeline } from 'node:stream'
import { json } from 'node:stream/consumers'

/** Methods that change nothing (RFC 9110, 9.2.1). */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])
/** Headers of one connection (RFC 9110, 7.6.1). */
const HOP_BY_HOP = /^(connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/
const MISDIRECTED = 421
/** The request by which the UI reads its settings. */
const SETTINGS = /^\/api\/v1\/settings(\?|$)/

export interface UiProxyOptions {
  readonly listen: { readonly host: string; readonly port: number }
  /** Address of the Temporal UI. */
  readonly upstream: { readonly host: string; readonly port: number }
  /** URL by which users open the UI; the loopback names are allowed besides its own. */
  readonly url: URL
  /** URL of the codec server that the UI uses unless a user sets another. */
  readonly codecEndpoint?: string
}

export interface UiProxy {
  close(): Promise<void>
}

/**
 * Starts the proxy. It answers 421 to a request for any other host name, which is what a page sends that has rebound
 * its name to this machine, and 403 to a change that another site asks for.
 * @throws Error if the port is taken
 */
export async function startUiProxy(options: UiProxyOptions): Promise<UiProxy> {
  const { listen, url } = options
  const hosts = hostsOf(url)
  const server = createServer((request, response) => {
    const refusal = refusalOf(request, hosts)
    if (refusal !== undefined)
      refuse(response, refusal.status, `${refusal.reason} Open ${url.origin} instead.\n`)
    else forward(request, response, options)
  })
  await new Promise<void>((listening, failed) => {
    server.once('error', failed).listen(listen.port, listen.host, listening)
  })
  return {
    async close() {
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      await closed
    },
  }
}

/** Returns the allowed values of `Host`. */
function hostsOf(url: URL): ReadonlySet<string> {
  const port = url.port === '' ? '' : `:${url.port}`
  return new Set([url.host, ...['127.0.0.1', 'localhost', '[::1]'].map((name) => `${name}${port}`)])
}

function refusalOf(
  { method = '', headers }: IncomingMessage,
  hosts: ReadonlySet<string>,
): { readonly status: number; readonly reason: string } | undefined {
  const host = headers.host?.toLowerCase() ?? ''
  if (!hosts.has(host))
    return { status: MISDIRECTED, reason: 'The Temporal UI is not served under this host name.' }
  if (SAFE.has(method) || isSameSite(headers, host)) return undefined
  return { status: 403, reason: 'The Temporal UI takes no changes from another site.' }
}

/** Clients other than browsers send neither header. */
function isSameSite({ origin, 'sec-fetch-site': site }: IncomingHttpHeaders, host: string): boolean {
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false
  return origin === undefined || (URL.canParse(origin) && new URL(origin).host === host)
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
}

function forward(
  request: IncomingMessage,
  response: ServerResponse,
  { upstream: { host, port }, codecEndpoint }: UiProxyOptions,
): void {
  const { method, url: path } = request
  const codec = SETTINGS.test(path ?? '') ? codecEndpoint : undefined
  const headers = endToEnd(request.headers)
  if (codec !== undefined) delete headers['accept-encoding']
  const forwarded = open({ host, port, method, path, headers, agent: false })
  forwarded.once('response', (reply) => {
    if (codec !== undefined && reply.statusCode === 200) return void sendSettings(reply, response, codec)
    response.writeHead(reply.statusCode ?? 502, endToEnd(reply.headers))
    pipeline(reply, response, () => {})
  })
  pipeline(request, forwarded, (error) => {
    if (!error) return
    if (response.headersSent) response.destroy()
    else refuse(response, 502, 'The Temporal UI does not answer.\n')
  })
  response.once('close', () => forwarded.destroy())
}

/**
 * Adds the codec server to the settings of the UI. The dev server can be told its URL, but not that the UI must send the
 * cookie of `/auth/payloads` with its requests.
 */
async function sendSettings(
  reply: IncomingMessage,
  response: ServerResponse,
  Endpoint: string,
): Promise<void> {
  try {
    const settings = (await json(reply)) as { Codec?: object }
    const body = JSON.stringify({
      ...settings,
      Codec: { ...settings.Codec, Endpoint, IncludeCredentials: true },
    })
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  } catch {
    refuse(response, 502, 'The Temporal UI does not answer.\n')
  }
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.test(name)))
}
