/** Byte streams and event feeds of operations, and their JSON forms for flows and MCP tools. */

import Type, { type Static } from 'typebox'
import { component } from './components/component.ts'
import { CORE_LIMITS } from './limits.ts'
import { type AnyOperation, type FeedEvents, replyOf } from './operation.ts'
import { Problem } from './problem.ts'

/** A request body, which can be read once. Nothing is read from the client before that. */
export interface ByteSource {
  readonly chunks: AsyncIterable<Uint8Array>
  /** The announced length in bytes, if any. */
  readonly length?: number
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
/** The bytes of an empty body. */
export const NO_BYTES: AsyncIterable<Uint8Array> = { [Symbol.asyncIterator]: nothing }

/** An input field for a {@link ByteSource}; flows and MCP give a string, bytes or any JSON value. */
export const Bytes = (description: string) => Type.Unsafe<ByteSource>(Type.Unknown({ description }))

/** An HTTP request as it came, for an operation with `takes: 'request'`. It holds the credential of its sender. */
export interface RawRequest {
  readonly method: string
  /** Path and query, not decoded. */
  readonly target: string
  /** As they were sent: in order, also repeated ones. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The address of the client. */
  readonly address: string
  /** The id under which it is logged. */
  readonly id: string
  readonly body: ByteSource
  /** Aborted when the connection closes before the client has the response; a Problem is the reason if the caller lost its right. */
  readonly gone: AbortSignal
}

/** An input field for a {@link RawRequest}; flows and MCP cannot give one. */
export const Raw = (description: string) => Type.Unsafe<RawRequest>(Type.Unknown({ description }))

/** The output of an operation with `reply: 'bytes'`, in terms of HTTP. */
export interface ByteReply {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Absent where there is no body, as for 304 and HEAD. An empty first chunk sends the headers. A reader that does not read to the end calls `discard`. */
  readonly chunks?: AsyncIterable<Uint8Array>
  /** Closes the source of the chunks. */
  readonly discard?: () => void
}

/** Adds chunks to a digest while they are read. @param digest such as a `Hash` of node:crypto; complete once the last chunk was read */
export async function* digested(
  chunks: AsyncIterable<Uint8Array>,
  digest: { update(chunk: Uint8Array): unknown },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    digest.update(chunk)
    yield chunk
  }
}

/**
 * Counts the chunks of a source while they are read.
 * @throws Problem `EntityTooLarge` beyond `bytesMax`, `request_malformed` beyond the announced length, `body_incomplete` if fewer bytes arrive
 */
export async function* counted(source: ByteSource, bytesMax: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of source.chunks) {
    bytes += chunk.byteLength
    if (bytes > bytesMax) throw tooLarge(bytesMax)
    if (bytes > (source.length ?? bytes)) throw tooLong()
    yield chunk
  }
  if (source.length !== undefined && bytes !== source.length) throw new Problem('body_incomplete')
}

const tooLong = () =>
  new Problem('request_malformed', { detail: 'The body has more bytes than were announced.' })

export function tooLarge(bytesMax: number): Problem {
  return new Problem('EntityTooLarge', {
    detail: `The maximum is ${bytesMax} bytes.`,
    members: { limit_bytes: bytesMax },
  })
}

/**
 * Runs an operation for a caller with JSON values (flows, MCP tools). Byte input: a string as UTF-8, bytes as they are,
 * any other value as JSON. Byte output: parsed JSON, text or base64, by the content type.
 * @throws Problem `output_too_large` if the bytes exceed the output of a step
 */
export async function runWithJson<Scope>(
  operation: AnyOperation,
  scope: Scope,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const output: unknown = await operation.run(scope, operation.parse(bytesIn(operation, args)))
  return operation.http.reply === 'bytes' ? readJson(output as ByteReply) : replyOf(operation, output)
}

function bytesIn({ http }: AnyOperation, args: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const field = http.takes === 'bytes' ? http.body : undefined
  const value = field === undefined ? undefined : args[field]
  if (field === undefined || value === undefined) return args
  const [type] = Object.entries(http.headers ?? {}).find(([, header]) => header === 'content-type') ?? []
  if (value instanceof Uint8Array) return { ...args, [field]: sourceOf(value) }
  if (isByteSource(value)) return args as Record<string, unknown>
  const text = typeof value === 'string'
  const described = text ? 'text/plain; charset=utf-8' : 'application/json'
  const source = sourceOf(new TextEncoder().encode(text ? value : JSON.stringify(value)))
  return { ...(type !== undefined && { [type]: described }), ...args, [field]: source }
}

/** No JSON has an iterator. */
export const isByteSource = (value: unknown): value is ByteSource =>
  typeof Object(value).chunks?.[Symbol.asyncIterator] === 'function'

function sourceOf(bytes: Uint8Array): ByteSource {
  const chunks = (async function* () {
    yield bytes
  })()
  return { chunks, length: bytes.byteLength }
}

/** How bytes of a content type become JSON. */
function jsonFormOf(type: string): 'json' | 'text' | 'base64' {
  if (/^(text\/|application\/(xml|yaml|x-yaml|javascript|x-ndjson)\b|[^;]*\+xml\b)/i.test(type)) return 'text'
  return /^application\/json\b|^[^;]*\+json\b/i.test(type) ? 'json' : 'base64'
}

/** Without a body (304, HEAD) the headers are the value. */
async function readJson(reply: ByteReply): Promise<unknown> {
  if (reply.chunks === undefined) return { status: reply.status, headers: reply.headers }
  const bytes = await gather(reply)
  const type = reply.headers['content-type'] ?? ''
  const form = jsonFormOf(type)
  if (form === 'text') return bytes.toString()
  if (form === 'base64') return bytes.toString('base64')
  try {
    return JSON.parse(bytes.toString())
  } catch (cause) {
    throw new Problem('content_invalid', {
      detail: `The content type of the object is ${type.slice(0, 100)}, but its content is not valid JSON.`,
      cause,
    })
  }
}

async function gather(reply: ByteReply): Promise<Buffer> {
  const max = CORE_LIMITS.outputBytesMax
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of reply.chunks ?? []) {
    bytes += chunk.byteLength
    if (bytes > max) {
      reply.discard?.()
      throw new Problem('output_too_large', { detail: `The object has more than ${max} bytes.` })
    }
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}

/** The connection that a feed writes to. Frames are complete strings, shared by all receivers. */
export interface FeedSink {
  /** @returns false if the client has to read first; {@link drained} resolves then */
  send(frame: string): boolean
  /** Resolves when the client has read most of the sent data, or the feed has ended. */
  drained(): Promise<void>
  /** Ends the feed and sends the code to the client. */
  end(code: string): void
}

export interface Feed {
  /** Starts sending. @returns a function that stops it */
  open(sink: FeedSink): () => void
  /** The id that a client that has read all frames until now may continue after; heartbeats carry it. Default: that of the last event. */
  position?(): Promise<string>
  /**
   * Checks again that the caller may read the feed, for rights that are not part of the credential.
   * @throws Problem whose code ends the feed
   */
  readonly recheck?: () => Promise<void>
}

/** The event that ends every feed. */
export const END_EVENT = {
  end: component(
    'StreamEnd',
    Type.Object(
      { code: Type.String({ description: 'Reason: `ended`, `draining`, or the code of a problem.' }) },
      {
        description:
          'The last event of a stream. The member `retry` of the frame says when to connect again.',
      },
    ),
    { code: 'draining' },
  ),
} as const

/** One event with data of its declared schema, and the id after which a client may continue. */
type Frame<E extends FeedEvents> = {
  [N in keyof E]: { readonly event: N; readonly id?: string; readonly data: Static<E[N]> }
}[keyof E]

/**
 * One server-sent event (HTML standard §9.2.6), of the events that its feed declares. Data is one line: JSON has no raw line
 * breaks. The event `message` has no name in the frame.
 */
export function frame<E extends FeedEvents>({ id, event, data }: Frame<E>): string {
  const name = event === 'message' ? '' : `event: ${String(event)}\n`
  return `${name}${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
}

/** The number in Last-Event-ID of a feed that numbers its events. Any other text is no position: the feed begins with its first event. */
export const lastNumber = (lastEventId = '0'): number =>
  /^[0-9]{1,9}$/.test(lastEventId) ? Number(lastEventId) : 0
