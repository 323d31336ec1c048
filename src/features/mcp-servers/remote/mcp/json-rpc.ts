/**
 * Requests of JSON-RPC 2.0 over the Streamable HTTP transport of MCP, on the side of the client: one POST per message, answered
 * by JSON or by a stream of server-sent events. The other server is not trusted: its headers go nowhere, but for the session id.
 */

import { createParser } from 'eventsource-parser'
import { isObject, parseForeignJson } from '../../../../core/json.ts'
import { Problem } from '../../../../core/problem.ts'
import type { Bounds, Inbound } from '../../../../infra/http-client/egress.ts'
import type { Progress } from '../../calls/call-client.ts'
import { USER_AGENT } from '../header-names.ts'

/** Sends the body to the server of the source, with the headers of the source below those of the message. */
export type Post = (
  headers: Readonly<Record<string, string>>,
  body: string,
  bounds: Pick<Bounds, 'wantedPart'>,
) => Promise<Inbound>

interface RpcError {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

/** The response to a request. */
export interface RpcReply {
  readonly status: number
  readonly sessionId: string | undefined
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: RpcError
}

/** Each POST is one request, and has one response, so that one id and one token are enough. */
const ID = 1
export const PROGRESS_TOKEN = 1
/** Of one call. */
const REPORTS_MAX = 1_000

const EVENT_STREAM = /^text\/event-stream\b/i

/**
 * Sends a request and reads its response.
 * @param onProgress gets the progress that the server reports while it works
 * @returns for a status outside 200–299, an error or neither of both
 * @throws Problem `upstream_invalid` if the response is not one of JSON-RPC, or the server asks something back; and as `post` does
 */
export async function request(
  post: Post,
  headers: Readonly<Record<string, string>>,
  method: string,
  params: Readonly<Record<string, unknown>>,
  onProgress?: (progress: Progress) => void,
): Promise<RpcReply> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: ID, method, params })
  const events = new ResponseEvents(onProgress)
  const inbound = await post({ ...MESSAGE_HEADERS, ...headers }, body, {
    wantedPart: ({ 'content-type': type = '' }) => (EVENT_STREAM.test(type) ? events.read : undefined),
  })
  const { status } = inbound
  const sessionId = inbound.headers['mcp-session-id']
  const isSuccess = status >= 200 && status <= 299
  const message = events.response ?? messageIn(inbound)
  if (message !== undefined) return { status, sessionId, ...memberOf(message) }
  if (!isSuccess) return { status, sessionId }
  throw notJsonRpc('The response to its request is missing.')
}

/** Sends a notification, to which there is no response. */
export async function notify(
  post: Post,
  headers: Readonly<Record<string, string>>,
  method: string,
): Promise<void> {
  // Some servers answer with a stream that stays open.
  const bounds = { wantedPart: () => () => true }
  await post({ ...MESSAGE_HEADERS, ...headers }, JSON.stringify({ jsonrpc: '2.0', method }), bounds)
}

const MESSAGE_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'user-agent': USER_AGENT,
}

type Message = Readonly<Record<string, unknown>>

/** Finds the response in a stream of events. Progress is passed on, other notifications are skipped. */
class ResponseEvents {
  response: Message | undefined
  readonly #onProgress: ((progress: Progress) => void) | undefined
  #progress = Number.NEGATIVE_INFINITY
  #reports = 0
  readonly #decoder = new TextDecoder()
  readonly #parser = createParser({ onEvent: ({ data }) => this.#take(data) })

  constructor(onProgress: ((progress: Progress) => void) | undefined) {
    this.#onProgress = onProgress
  }

  /** @returns true when the response has arrived */
  readonly read = (chunk: Buffer): boolean => {
    this.#parser.feed(this.#decoder.decode(chunk, { stream: true }))
    return this.response !== undefined
  }

  #take(data: string): void {
    if (this.response !== undefined || data === '') return
    const message = parse(data)
    if (!isObject(message)) throw notJsonRpc('An event is not a message.')
    if (typeof message['method'] === 'string' && message['id'] !== undefined)
      throw asksBack(message['method'])
    if (message['id'] === ID) this.response = message
    else if (message['method'] === 'notifications/progress') this.#report(message['params'])
  }

  /** Passes on what grows, as the protocol demands, and not more than a person can follow. The message is as the server sent it. */
  #report(params: unknown): void {
    const { progressToken, progress, message } = Object(params) as Record<string, unknown>
    const isNext = typeof progress === 'number' && progress > this.#progress && Number.isFinite(progress)
    if (progressToken !== PROGRESS_TOKEN || !isNext || this.#reports === REPORTS_MAX) return
    this.#reports += 1
    this.#progress = progress
    this.#onProgress?.({ progress, message: typeof message === 'string' ? message : '' })
  }
}

/** The message in a response that is JSON; undefined for other types, and for an empty one. */
function messageIn({ status, headers, body }: Inbound): Message | undefined {
  if (!/^application\/json\b/i.test(headers['content-type'] ?? '') || body.length === 0) return undefined
  const isFailure = status < 200 || status > 299
  const message = isFailure ? parsedOrUndefined(body.toString()) : parse(body.toString())
  if (isObject(message) && (message['id'] === ID || (isFailure && isObject(message['error'])))) return message
  if (isFailure) return undefined
  throw notJsonRpc('The id of the response is not that of the request.')
}

function memberOf({ result, error }: Message): Pick<RpcReply, 'result' | 'error'> {
  if (isObject(error)) {
    const { code, message, data } = error
    return { error: { code: Number(code), message: String(message ?? '').slice(0, 500), data } }
  }
  if (!isObject(result)) throw notJsonRpc('The result is not an object.')
  return { result }
}

function parse(text: string): unknown {
  const value = parsedOrUndefined(text)
  if (value === undefined) throw notJsonRpc('It is not valid JSON.')
  return value
}

/** Undefined if it is not JSON, or has names that could pollute prototypes. */
export function parsedOrUndefined(text: string): unknown {
  try {
    return parseForeignJson(text)
  } catch {
    return undefined
  }
}

const notJsonRpc = (detail: string) =>
  new Problem('upstream_invalid', {
    detail: `The response of the MCP server is not one of JSON-RPC. ${detail}`,
  })

/** The server asks its client for something, such as an answer of the user or of a model. */
export const asksBack = (method: string) =>
  new Problem('upstream_invalid', {
    detail: `The MCP server asks for more (${method.slice(0, 100)}), which tools of other servers cannot answer here.`,
  })
