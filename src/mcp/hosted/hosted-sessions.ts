/**
 * Sessions of clients up to MCP 2025-11-25. The id of a session is what the client said of itself at its beginning, encrypted for
 * the workspace and bound to server, principal and client; the log level and the subscriptions, which change, are in Valkey. The stream of a session tells of changes. A cancellation goes the
 * way of a response: to the process that has the call.
 */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { WorkspaceScope } from '../../access/scope.ts'
import { decryptFor, encryptFor } from '../../access/scope-services.ts'
import { isObject } from '../../core/json.ts'
import { notFound } from '../../core/problem.ts'
import { EVENT_LIMITS } from '../../features/events/limits.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import { digest, type Tool } from '../../features/mcp-servers/tool.ts'
import type { ExpiringHashes } from '../../infra/valkey/expiring-hashes.ts'
import type { Message } from '../endpoint.ts'
import {
  CallCancelled,
  type ClientResponse,
  type McpChange,
  type McpSession,
} from '../protocol/mcp-server.ts'
import { logsSteps } from '../protocol/serving.ts'
import { isModern } from '../protocol/transport.ts'
import type { ClientResponses } from './client-responses.ts'
import type { RequestState } from './hosted-access.ts'
import { LISTS, type ServerChanges } from './hosted-changes.ts'

const SESSION = 'mcp-session-id'
const LEVEL = 'level'
const URI = 'uri:'

/** The providers whose tools may send requests to their client, and those whose tools run flows. */
const REQUESTING_INPUT: ReadonlySet<string> = new Set(['functions', 'flows', 'executions'])
const RUNNING_FLOWS: ReadonlySet<string> = new Set(['flows', 'executions'])

interface SessionCall {
  /** The tool that the message calls. */
  readonly tool: Tool | undefined
  /** @throws Problem `quota_exceeded` */
  readonly acquireStream: () => Promise<void>
}

export class HostedSessions {
  readonly #responses: ClientResponses
  readonly #states: ExpiringHashes

  constructor(responses: ClientResponses, states: ExpiringHashes) {
    this.#responses = responses
    this.#states = states
  }

  /**
   * Begins a session, or continues the one that the request names.
   * @throws Problem 404 for a session of another client, server or workspace; then the client begins another
   */
  async openSession(
    request: FastifyRequest,
    state: RequestState,
    { method, params }: Message,
    { tool, acquireStream }: SessionCall,
  ): Promise<McpSession | undefined> {
    if (method === 'initialize') {
      const id = sessionId(state.scope, ownerOf(state), Object(params).capabilities)
      state.response.setHeader(SESSION, id)
      return undefined
    }
    const { [SESSION]: id, 'mcp-protocol-version': version } = request.headers
    if (typeof id !== 'string' || isModern(request.body, version)) return undefined
    const capabilities = requireSession(state, id)
    const source = tool?.binding.source ?? ''
    const key = keyOf(id)
    if (method === 'notifications/cancelled')
      this.#responses.deliver(cancelKey(key, Object(params).requestId), {})
    return {
      capabilities,
      cancellable: (disconnected, make) =>
        this.#cancellable(cancelKey(key, Object(request.body).id), disconnected, make),
      begin: acquireStream,
      mayRequestInput: REQUESTING_INPUT.has(source) && Object.keys(capabilities).length > 0,
      logsSteps: RUNNING_FLOWS.has(source) && logsSteps((await this.#states.read(key))[LEVEL]),
      waitForResponse: (requestId, signal) => this.#responses.wait(responseKey(state, requestId), signal),
      setLogLevel: async (level) =>
        void (await this.#states.set(key, LEVEL, level, MCP_LIMITS.subscriptionsMax)),
      subscribe: (uri) => this.#states.set(key, `${URI}${uri}`, '', MCP_LIMITS.subscriptionsMax),
      unsubscribe: (uri) => this.#states.delete(key, `${URI}${uri}`),
    }
  }

  async #cancellable<T>(
    key: string,
    disconnected: AbortSignal,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const [cancelled, ended] = [new AbortController(), new AbortController()]
    void this.#responses.wait(key, ended.signal).then((notice) => {
      if (notice !== undefined) cancelled.abort()
    })
    const made = await Promise.allSettled([call(AbortSignal.any([disconnected, cancelled.signal]))])
    ended.abort()
    const [outcome] = made
    if (cancelled.signal.aborted) throw new CallCancelled()
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  }

  takeResponse(state: RequestState, requestId: unknown, response: ClientResponse): void {
    this.#responses.deliver(responseKey(state, String(requestId)), response)
  }

  /**
   * Sends the changes of the server and of the subscribed documents until the client or the server ends the stream. A client
   * that resumes with `Last-Event-ID` is told of all that may have changed meanwhile, so nothing is stored for it.
   * @param watch begins to watch; the stream replaces the documents as subscriptions change
   */
  openStream(
    request: FastifyRequest,
    reply: FastifyReply,
    state: RequestState,
    watch: (onChange: (change: McpChange) => void) => ServerChanges,
  ): void {
    const { [SESSION]: id, 'last-event-id': last, 'mcp-protocol-version': version } = request.headers
    requireSession(state, String(id))
    const { raw } = reply
    for (const [name, value] of Object.entries(reply.getHeaders())) raw.setHeader(name, value ?? '')
    reply.hijack()
    raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform' })
    const send = (data: string) => {
      // Bounds the memory that a client takes by not reading.
      if (raw.writableLength > EVENT_LIMITS.streamQueueBytesMax) raw.destroy()
      else if (!raw.writableEnded) raw.write(`id: ${changes.version}\nevent: message\ndata: ${data}\n\n`)
    }
    const changes = watch((change) => send(JSON.stringify(notificationOf(change))))
    if (version === '2025-11-25') raw.write(`id: ${changes.version}\ndata: \n\n`)
    else raw.write(': open\n\n')
    const resumes = last !== undefined
    if (resumes && last !== String(changes.version))
      for (const list of LISTS) send(JSON.stringify(notificationOf(list)))
    const stop = this.#followSubscriptions(keyOf(String(id)), changes, (uris) => {
      if (resumes) for (const uri of uris) send(JSON.stringify(notificationOf({ uri })))
    })
    const heartbeat = setInterval(
      () => raw.writableEnded || raw.write(': hb\n\n'),
      EVENT_LIMITS.streamHeartbeatMs,
    )
    raw.once('close', () => {
      clearInterval(heartbeat)
      stop()
      changes.stop()
    })
  }

  /** Watches the documents that the session subscribes to now. @param onFirst called with the first ones */
  #followSubscriptions(
    key: string,
    changes: ServerChanges,
    onFirst: (uris: readonly string[]) => void,
  ): () => void {
    let known: string | undefined
    const read = async () => {
      const uris = Object.keys(await this.#states.read(key)).filter((field) => field.startsWith(URI))
      const now = uris.map((field) => field.slice(URI.length)).sort()
      if (known === undefined) onFirst(now)
      if (known !== now.join('\n')) changes.watch(now)
      known = now.join('\n')
    }
    // While Valkey is away, the documents stay those of before.
    const follow = () => void read().catch(() => {})
    follow()
    const timer = setInterval(follow, MCP_LIMITS.listenCheckMs)
    return () => clearInterval(timer)
  }
}

/** True if the request names a session. */
export const hasSession = ({ headers }: FastifyRequest) => typeof headers[SESSION] === 'string'

/** @throws Problem 404 */
function requireSession(state: RequestState, id: string): Readonly<Record<string, object>> {
  const capabilities = sessionCapabilities(state.scope, ownerOf(state), id)
  if (capabilities === undefined) throw notFound('session')
  return capabilities
}

const ownerOf = ({ server, client }: RequestState) => ({
  serverId: server.id,
  principal: client.subject,
  clientId: client.clientId,
})

/** A response counts only if it comes from the client that got the request. */
const responseKey = ({ server, client }: RequestState, requestId: string) =>
  JSON.stringify([server.id, client.subject, client.clientId, requestId])

/** Ids of requests are unique in a session, and the id of a session is known to its client alone. */
const cancelKey = (session: string, requestId: unknown) => JSON.stringify(['cancel', session, requestId])

const keyOf = (id: string) => `tenon:mcp-session:${digest(id)}`

function notificationOf(change: McpChange): object {
  const jsonrpc = '2.0'
  return typeof change === 'string'
    ? { jsonrpc, method: `notifications/${change}/list_changed` }
    : { jsonrpc, method: 'notifications/resources/updated', params: { uri: change.uri } }
}

/** The client at the other end of a session. */
interface Owner {
  readonly serverId: string
  readonly principal: string
  readonly clientId: string
}

const SESSION_PURPOSE = 'mcp-session'

/** @param capabilities as in `initialize`, unverified */
function sessionId(scope: WorkspaceScope, owner: Owner, capabilities: unknown): string {
  const text = JSON.stringify([ownerText(owner), usedCapabilities(capabilities)])
  return encryptFor(scope, SESSION_PURPOSE, Buffer.from(text)).toString('base64url')
}

/** The capabilities that a server uses, without what else a client says of them. */
function usedCapabilities(capabilities: unknown): Record<string, object> {
  const { elicitation, sampling, roots } = Object(capabilities) as Record<string, unknown>
  const modes = ['form', 'url'].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]))
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
  }
}

/** @returns the capabilities of the client; undefined if the id is not of a session of this client at this server */
function sessionCapabilities(
  scope: WorkspaceScope,
  owner: Owner,
  id: string,
): Readonly<Record<string, object>> | undefined {
  try {
    const text = decryptFor(scope, SESSION_PURPOSE, Buffer.from(id, 'base64url')).toString()
    const [bound, declared] = JSON.parse(text) as [string, Record<string, object>]
    return bound === ownerText(owner) ? declared : undefined
  } catch {
    return undefined // Of another workspace, or no id of ours.
  }
}

const ownerText = ({ serverId, principal, clientId }: Owner) =>
  JSON.stringify([serverId, principal, clientId])
