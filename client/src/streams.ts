/** Server-sent events that go on: after a lost connection, a renewed token, or a server that stops, from the last position. */

import { createParser } from 'eventsource-parser'
import { TenonError } from './errors.ts'
import { pause, pauseAfter, type Transport } from './transport.ts'

/** `connecting`: not yet; `live`: nothing is missed; `stale`: the connection is lost and made again; `ended`: for good. */
export type StreamState = 'connecting' | 'live' | 'stale' | 'ended'

export interface Frame {
  /** `message` for events; `ready`, `gap` and `end` tell of the stream itself (docs/events.md). */
  readonly event: string
  /** The position after this frame. */
  readonly id: string | undefined
  /** The JSON of the frame. */
  readonly data: unknown
}

export interface StreamOptions {
  readonly signal?: AbortSignal
  /** The position after which the stream begins. Default: now. */
  readonly lastEventId?: string
  readonly onState?: (state: StreamState) => void
  /** Milliseconds without a heartbeat after which the connection counts as lost. Default: 35,000, which is two missed heartbeats. */
  readonly silenceMs?: number
}

/** The server sends `retry:`; this is for connections that have not got so far. */
export const RETRY_MS = 3_000

/**
 * The frames of a stream, over as many connections as it takes. It ends only with its signal, or if the server refuses it for good.
 * @param path with its query
 * @throws TenonError of a refusal that no repetition mends, such as `forbidden`
 * @example
 * for await (const { event, data } of tenon.events.subscribe({ topic: 'orders.*' })) if (event === 'message') show(data)
 */
export async function* frames(
  transport: Transport,
  path: string,
  options: StreamOptions = {},
): AsyncGenerator<Frame> {
  const { signal, onState } = options
  const position: Position = { id: options.lastEventId, retryMs: RETRY_MS }
  let failures = 0
  onState?.('connecting')
  try {
    for (;;) {
      let isOpen = false
      try {
        for await (const frame of connection(transport, path, { ...options, position })) {
          if (frame.event === 'ready') {
            isOpen = true
            failures = 0
            onState?.('live')
          }
          yield frame
        }
      } catch (error) {
        signal?.throwIfAborted()
        if (error instanceof TenonError && isFinal(error)) throw error
      }
      signal?.throwIfAborted()
      failures += isOpen ? 0 : 1
      onState?.('stale')
      await pause(pauseAfter(failures, position.retryMs), signal)
    }
  } finally {
    onState?.('ended')
  }
}

interface Position {
  id: string | undefined
  retryMs: number
}

/** A request that is wrong, or has no right, stays so. */
export const isFinal = ({ status }: TenonError): boolean =>
  status >= 400 && status < 500 && status !== 408 && status !== 429

/** The frames of one connection. It ends when the server ends it, and throws when it is lost. */
async function* connection(
  transport: Transport,
  path: string,
  { signal, position, silenceMs = 35_000 }: StreamOptions & { readonly position: Position },
): AsyncGenerator<Frame> {
  const lost = new AbortController()
  const any = signal === undefined ? lost.signal : AbortSignal.any([signal, lost.signal])
  const headers = {
    accept: 'text/event-stream',
    ...(position.id !== undefined && { 'last-event-id': position.id }),
  }
  const sent = { method: 'GET', path, headers, isRepeatable: true }
  const response = await transport.send(sent, { signal: any }, async (answer) => answer)
  const reader = response.body?.pipeThrough(new TextDecoderStream() as never).getReader() as
    | ReadableStreamDefaultReader<string>
    | undefined
  const found: Frame[] = []
  const parser = createParser({
    onId: (id) => {
      position.id = id
    },
    onRetry: (ms) => {
      position.retryMs = ms
    },
    onEvent: ({ event = 'message', id, data }) =>
      found.push({ event, id: id ?? position.id, data: JSON.parse(data) }),
  })
  let silence: ReturnType<typeof setTimeout> | undefined
  const listen = () => {
    clearTimeout(silence)
    silence = setTimeout(() => lost.abort(silent(silenceMs)), silenceMs)
  }
  try {
    for (listen(); ; listen()) {
      const chunk = await reader?.read()
      if (chunk === undefined || chunk.done) return
      parser.feed(chunk.value)
      yield* found.splice(0)
    }
  } finally {
    clearTimeout(silence)
    lost.abort()
  }
}

const silent = (ms: number): TenonError =>
  new TenonError({ code: 'stream_silent', status: 0, detail: `The stream was silent for ${ms} ms.` })
