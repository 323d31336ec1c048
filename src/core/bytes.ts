/** Bytes that pass through the house as streams, and what they are to a door that speaks JSON. */

import Type from 'typebox'
import { LIMITS } from './limits.ts'
import { type AnyOperation, replyOf } from './operation.ts'
import { Problem } from './problem.ts'

/** A body on its way in. It can be read once; until it is, none of it has been taken from the client. */
export interface ByteSource {
  readonly chunks: AsyncIterable<Uint8Array>
  /** Bytes, where the sender said so beforehand. */
  readonly length?: number
}

/** An input field that takes a {@link ByteSource}; to JSON doors, a text or any JSON value. */
export const Bytes = (description: string) => Type.Unsafe<ByteSource>(Type.Unknown({ description }))

/** What an operation with `reply: 'bytes'` gives: HTTP's own words, since such replies are about representations. */
export interface ByteReply {
  readonly status: 200 | 206 | 304
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Absent where there is nothing to send: 304, HEAD. Whoever does not read it to its end calls `discard`. */
  readonly chunks?: AsyncIterable<Uint8Array>
  /** Ends what feeds the chunks. */
  readonly discard?: () => void
}

/**
 * The source's chunks, counted as they pass.
 * @throws Problem `EntityTooLarge` beyond `bytesMax`, `body_incomplete` where fewer come than were announced
 */
export async function* counted(source: ByteSource, bytesMax: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of source.chunks) {
    bytes += chunk.byteLength
    if (bytes > bytesMax) throw tooLarge(bytesMax)
    yield chunk
  }
  if (source.length !== undefined && bytes !== source.length) throw new Problem('body_incomplete')
}

export function tooLarge(bytesMax: number): Problem {
  return new Problem('EntityTooLarge', {
    detail: `At most ${bytesMax} bytes are taken.`,
    members: { limit_bytes: bytesMax },
  })
}

/**
 * Runs an operation for a door that speaks JSON (flows, MCP tools): where the binding says bytes, a text goes in as
 * UTF-8 and any other value as JSON; out come parsed JSON, text, or base64, by the content type.
 * @throws Problem `output_too_large` where the bytes are more than a step carries
 */
export async function runWithJson<Scope>(
  operation: AnyOperation,
  scope: Scope,
  args: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const output: unknown = await operation.run(scope, operation.parse(bytesIn(operation, args)))
  return operation.http.reply === 'bytes' ? jsonOf(output as ByteReply) : replyOf(operation, output)
}

function bytesIn({ http }: AnyOperation, args: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const field = http.takes === 'bytes' ? http.body : undefined
  const value = field === undefined ? undefined : args[field]
  if (field === undefined || value === undefined) return args
  const [type] = Object.entries(http.headers ?? {}).find(([, header]) => header === 'content-type') ?? []
  const text = typeof value === 'string'
  const described = text ? 'text/plain; charset=utf-8' : 'application/json'
  const source = sourceOf(text ? value : JSON.stringify(value))
  return { ...(type !== undefined && { [type]: described }), ...args, [field]: source }
}

function sourceOf(text: string): ByteSource {
  const bytes = new TextEncoder().encode(text)
  const chunks = (async function* () {
    yield bytes
  })()
  return { chunks, length: bytes.byteLength }
}

/** Without a body (304, HEAD) the headers are the value. */
async function jsonOf(reply: ByteReply): Promise<unknown> {
  if (reply.chunks === undefined) return { status: reply.status, headers: reply.headers }
  const bytes = await gather(reply)
  const type = reply.headers['content-type'] ?? ''
  if (/^(text\/|application\/(xml|yaml|x-yaml|javascript|x-ndjson)\b|[^;]*\+xml\b)/i.test(type))
    return bytes.toString()
  if (!/^application\/json\b|^[^;]*\+json\b/i.test(type)) return bytes.toString('base64')
  try {
    return JSON.parse(bytes.toString())
  } catch (cause) {
    throw new Problem('content_invalid', {
      detail: `It is stored as ${type.slice(0, 100)} and is not.`,
      cause,
    })
  }
}

async function gather(reply: ByteReply): Promise<Buffer> {
  const max = LIMITS.stepOutputBytesMax
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of reply.chunks ?? []) {
    bytes += chunk.byteLength
    if (bytes > max) {
      reply.discard?.()
      throw new Problem('output_too_large', { detail: `It has more than ${max} bytes.` })
    }
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}

/** What a door offers to a feed. Frames are whole texts, made once for all who get them. */
export interface FeedSink {
  /** @returns whether the client has taken most of what was sent; else {@link taken} tells when the next may come */
  send(frame: string): boolean
  /** Resolves when the client has taken most of what was sent, or the feed has ended. */
  taken(): Promise<void>
  /** Ends the feed from our side; the code is told to the client. */
  end(code: 'slow_consumer' | 'unavailable' | 'ended'): void
}

export interface Feed {
  /** Begins to send. @returns how to stop; nothing is sent after that */
  open(sink: FeedSink): () => void
  /**
   * Asks again if the caller may hear it, for rights that are no part of the credential.
   * @throws Problem, with whose code the feed ends
   */
  readonly recheck?: () => Promise<void>
}

/** One server-sent event (HTML standard §9.2.6). Data is one line: JSON has no raw line breaks. */
export function frame(fields: { id?: string; event?: string; data: unknown }): string {
  const id = fields.id === undefined ? '' : `id: ${fields.id}\n`
  const event = fields.event === undefined ? '' : `event: ${fields.event}\n`
  return `${event}${id}data: ${JSON.stringify(fields.data)}\n\n`
}
