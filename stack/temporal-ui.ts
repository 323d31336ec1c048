/**
 * Reverse proxy for the Temporal UI, which itself checks neither the host name nor the origin of a request. It adds what operators
 * of Tenon need: columns, views, and the way to readable payloads.
 */

import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as open,
  type ServerResponse,
} from 'node:http'
import { pipeline } from 'node:stream'
import { json, text } from 'node:stream/consumers'
import { VIEWS_PATH, viewsScript } from './temporal-ui-views.ts'

/** Methods that change nothing (RFC 9110, 9.2.1). */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])
/** Headers of one connection (RFC 9110, 7.6.1). */
const HOP_BY_HOP = /^(connection|keep-alive|proxy-connection|te|trailer|transfer-encoding|upgrade)$/
const MISDIRECTED = 421
/** The request by which the UI reads its settings. */
const SETTINGS = /^\/api\/v1\/settings(\?|$)/
/** The page of the API at which payloads are made readable; the UI links to it below its own address. */
const PAYLOADS_PATH = '/auth/payloads'

export interface UiProxyOptions {
  readonly listen: { readonly host: string; readonly port: number }
  /** Address of the Temporal UI. */
  readonly upstream: { readonly host: string; readonly port: number }
  /** URL by which users open the UI; the loopback names are allowed besides its own. */
  readonly url: URL
  /** URL of the codec server that the UI uses unless a user sets another. */
  readonly codecEndpoint?: () => string
  /** The Temporal namespace of the platform. */
  readonly namespace: string
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
    else if (!serveOwn(request, response, options)) forward(request, response, options)
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

/** Serves the paths that the proxy adds to the UI. @returns false for any other */
function serveOwn(
  { url: path = '' }: IncomingMessage,
  response: ServerResponse,
  { codecEndpoint, namespace }: UiProxyOptions,
): boolean {
  if (path === VIEWS_PATH) {
    response.writeHead(200, { 'content-type': 'text/javascript; charset=utf-8', 'cache-control': 'no-store' })
    response.end(viewsScript(namespace))
    return true
  }
  if (codecEndpoint === undefined || path.split('?', 1)[0] !== PAYLOADS_PATH) return false
  response.writeHead(302, { location: new URL(PAYLOADS_PATH, codecEndpoint()).href }).end()
  return true
}

function forward(
  request: IncomingMessage,
  response: ServerResponse,
  { upstream: { host, port }, codecEndpoint }: UiProxyOptions,
): void {
  const { method, url: path } = request
  const codec = SETTINGS.test(path ?? '') ? codecEndpoint?.() : undefined
  const isPage = method === 'GET' && /\btext\/html\b/.test(request.headers.accept ?? '')
  const headers = endToEnd(request.headers)
  if (codec !== undefined || isPage) delete headers['accept-encoding']
  const forwarded = open({ host, port, method, path, headers, agent: false })
  forwarded.once('response', (reply) => {
    if (codec !== undefined && reply.statusCode === 200) return void sendSettings(reply, response, codec)
    if (isPage && /^text\/html\b/.test(reply.headers['content-type'] ?? ''))
      return void sendPage(reply, response)
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
      Codec: { ...settings.Codec, Endpoint, IncludeCredentials: true, ...UNREADABLE },
    })
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  } catch {
    refuse(response, 502, 'The Temporal UI does not answer.\n')
  }
}

/** Shown instead of the UI's general text while no token has been entered. */
const UNREADABLE = {
  DefaultErrorMessage:
    'Payloads are encrypted. Enter the token of an administrator to read them in this browser:',
  DefaultErrorLink: PAYLOADS_PATH,
}

/** Adds the script that writes columns and views before the scripts of the UI run. */
async function sendPage(reply: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const page = (await text(reply)).replace(/<head[^>]*>/i, `$&<script src="${VIEWS_PATH}"></script>`)
    const { 'content-length': _, ...headers } = endToEnd(reply.headers)
    response.writeHead(reply.statusCode ?? 502, headers).end(page)
  } catch {
    refuse(response, 502, 'The Temporal UI does not answer.\n')
  }
}

function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.test(name)))
}
