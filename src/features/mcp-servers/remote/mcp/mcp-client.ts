/**
 * A client of MCP servers over Streamable HTTP, in both generations of the protocol: requests without a handshake (2026-07-28),
 * and connections that `initialize` opens (up to 2025-11-25), with a session if the server keeps one. It offers no capabilities,
 * so servers may ask it nothing, and it opens no streams of its own.
 */

import { LRUCache } from 'lru-cache'
import { Problem } from '../../../../core/problem.ts'
import type { Progress } from '../../calls/call-client.ts'
import { MCP_LIMITS } from '../../limits.ts'
import { asksBack, notify, type Post, PROGRESS_TOKEN, type RpcReply, request } from './json-rpc.ts'

/** The other side of a call. */
export interface Peer {
  readonly post: Post
  /** Owner of the connection, such as tenant, workspace, source and caller: connections are shared within it only. */
  readonly owner: string
}

interface Connection {
  readonly isModern: boolean
  /** The negotiated protocol version. */
  readonly version: string
  readonly sessionId?: string | undefined
}

const MODERN = '2026-07-28'
/** Newest first. */
const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
const CLIENT = { name: 'tenon', version: '1' }
const META = 'io.modelcontextprotocol/'
const MODERN_META = {
  [`${META}protocolVersion`]: MODERN,
  [`${META}clientInfo`]: CLIENT,
  [`${META}clientCapabilities`]: {},
}

/** By owner. A connection is a version and perhaps a session; sockets are kept by the egress guard. */
const CONNECTIONS = new LRUCache<string, Promise<Connection>>({
  max: MCP_LIMITS.upstream.connectionsMax,
  ttl: MCP_LIMITS.upstream.connectionMs,
})

/**
 * All pages of `tools/list`.
 * @returns the tools as the server sent them, not checked
 * @throws Problem `upstream_invalid` for more pages, tools or bytes than the limits, and as {@link ask} does
 */
export async function listUpstreamTools(peer: Peer): Promise<readonly unknown[]> {
  const { toolsMax, pagesMax, listBytesMax } = MCP_LIMITS.upstream
  const tools: unknown[] = []
  let bytes = 0
  let cursor: unknown
  for (let page = 0; page < pagesMax; page++) {
    const result = resultOf(await ask(peer, 'tools/list', cursor === undefined ? {} : { cursor }))
    const { tools: more, nextCursor } = result
    if (!Array.isArray(more)) throw invalid('The list of tools is missing.')
    tools.push(...more)
    bytes += JSON.stringify(more).length
    if (tools.length > toolsMax) throw invalid(`It lists more than ${toolsMax} tools.`)
    if (bytes > listBytesMax) throw invalid(`Its tools have more than ${listBytesMax} bytes.`)
    if (nextCursor === undefined || nextCursor === null) return tools
    cursor = nextCursor
  }
  throw invalid(`Its list of tools has more than ${pagesMax} pages.`)
}

export type UpstreamReply = Pick<RpcReply, 'result' | 'error'>

export interface UpstreamCall {
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
  /** Headers that repeat arguments, for servers of 2026-07-28. */
  readonly headers?: Readonly<Record<string, string>>
  /** Asks the server for progress. */
  readonly onProgress?: (progress: Progress) => void
}

/** Calls a tool. @returns the result or the error of JSON-RPC @throws Problem as {@link ask} does */
export async function callUpstreamTool(
  peer: Peer,
  { name, args, headers = {}, onProgress }: UpstreamCall,
): Promise<UpstreamReply> {
  const own = { 'mcp-name': name, ...headers }
  const { status, ...reply } = await ask(
    peer,
    'tools/call',
    { name, arguments: args },
    { headers: own, onProgress },
  )
  if (reply.error === undefined || isDenied(status)) resultOf({ status, ...reply })
  return reply
}

/**
 * Sends a request within a connection. A session that the server has forgotten is opened again, since it refused the request:
 * with 404 (specification), or 400 as many servers do.
 * @throws Problem `upstream_invalid`, and as the `post` of the peer does
 */
async function ask(
  peer: Peer,
  method: string,
  params: Readonly<Record<string, unknown>>,
  { headers = {}, onProgress }: Partial<Pick<Outgoing, 'headers' | 'onProgress'>> = {},
): Promise<RpcReply> {
  const connection = await ensureConnection(peer)
  const reply = await send(peer.post, connection, { method, params, headers, onProgress })
  if (reply.status < 400) return reply
  CONNECTIONS.delete(peer.owner)
  if (connection.sessionId !== undefined && (reply.status === 404 || reply.status === 400))
    return send(peer.post, await ensureConnection(peer), { method, params, headers, onProgress })
  return reply
}

interface Outgoing {
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  /** For servers of 2026-07-28. */
  readonly headers: Readonly<Record<string, string>>
  readonly onProgress?: ((progress: Progress) => void) | undefined
}

function send(
  post: Post,
  { isModern, version, sessionId }: Connection,
  { method, params, headers, onProgress }: Outgoing,
): Promise<RpcReply> {
  const [own, meta] = isModern
    ? [{ ...headers, ...modernHeaders(method) }, MODERN_META]
    : [legacyHeaders(version, sessionId), {}]
  const _meta = { ...meta, ...(onProgress && { progressToken: PROGRESS_TOKEN }) }
  const withMeta = Object.keys(_meta).length === 0 ? params : { ...params, _meta }
  return request(post, own, method, withMeta, onProgress)
}

const modernHeaders = (method: string) => ({ 'mcp-protocol-version': MODERN, 'mcp-method': method })

function legacyHeaders(version: string, sessionId: string | undefined): Record<string, string> {
  return { 'mcp-protocol-version': version, ...(sessionId !== undefined && { 'mcp-session-id': sessionId }) }
}

function ensureConnection({ post, owner }: Peer): Promise<Connection> {
  const known = CONNECTIONS.get(owner)
  if (known !== undefined) return known
  const opening = connect(post)
  CONNECTIONS.set(owner, opening)
  opening.catch(() => {
    if (CONNECTIONS.peek(owner) === opening) CONNECTIONS.delete(owner)
  })
  return opening
}

/** Servers of 2026-07-28 must answer `server/discover`; those that do not are older (specification, "Versioning"). */
async function connect(post: Post): Promise<Connection> {
  const method = 'server/discover'
  const reply = await request(post, modernHeaders(method), method, { _meta: MODERN_META })
  const { status, result, error } = reply
  if (isDenied(status) || status === 429 || status >= 500 || (status >= 300 && status < 400))
    throw refusal(status, error?.message)
  const versions = result?.['supportedVersions']
  if (!Array.isArray(versions) || !versions.includes(MODERN)) return initialize(post)
  return { isModern: true, version: MODERN }
}

async function initialize(post: Post): Promise<Connection> {
  const reply = await request(post, {}, 'initialize', {
    protocolVersion: LEGACY[0],
    capabilities: {},
    clientInfo: CLIENT,
  })
  const result = resultOf(reply)
  const version = String(result['protocolVersion'])
  if (!LEGACY.includes(version))
    throw invalid(`It speaks the protocol version ${version.slice(0, 50)}, which is not known here.`)
  const { sessionId } = reply
  if (sessionId !== undefined && !SESSION_ID.test(sessionId)) throw invalid('Its session id is not valid.')
  await notify(post, legacyHeaders(version, sessionId), 'notifications/initialized')
  return { isModern: false, version, sessionId }
}

/** Visible ASCII (specification, "Session Management"). */
const SESSION_ID = /^[\x21-\x7e]{1,1024}$/

/** @throws Problem `upstream_invalid` for an error, or a result that is not the final one */
function resultOf({ status, result, error }: RpcReply): Readonly<Record<string, unknown>> {
  if (result === undefined) throw refusal(status, error?.message)
  const { resultType = 'complete' } = result
  if (resultType !== 'complete') throw asksBack(String(resultType))
  return result
}

const isDenied = (status: number) => status === 401 || status === 403

/** The server's own words are for admins: they are no part of the text that models read. */
function refusal(status: number, message: string | undefined): Problem {
  const members = message === undefined ? {} : { upstream_message: message }
  if (isDenied(status))
    return invalid(
      `It refuses the credentials (${status}): check the headers of the source and their secrets.`,
      members,
    )
  if (status >= 300 && status < 400) return invalid(`It redirects (${status}), which is not followed.`)
  return invalid(`It answered ${status}${message === undefined ? '' : ' with an error'}.`, members)
}

const invalid = (detail: string, members: Readonly<Record<string, unknown>> = {}) =>
  new Problem('upstream_invalid', { detail: `The MCP server of the source: ${detail}`, members })

/** Forgets the connection: the next request opens a new one. */
export const forgetConnection = (owner: string) => CONNECTIONS.delete(owner)
