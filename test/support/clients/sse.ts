/** Subscribes to event streams for the time of a test, and collects their frames. */

import { expect, inject } from 'vitest'
import { type Caller, eventually } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

export interface ReceivedEvent {
  readonly id: string | undefined
  readonly event: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape
  readonly data: any
}

const open: AbortController[] = []

/** Call in `afterEach`. */
export function closeSubscriptions(): void {
  for (const controller of open.splice(0)) controller.abort()
}

/** Subscribes and collects; resolves when the stream is ready. */
export const subscribeToEvents = (
  as: Caller,
  query: string,
  headers: Record<string, string> = {},
  at: Running = inject('tenon'),
): Promise<ReceivedEvent[]> => subscribeToStream(as, `/v1/events/subscribe?${query}`, headers, at)

/** The same with any stream. */
export async function subscribeToStream(
  as: Caller,
  path: string,
  headers: Record<string, string> = {},
  at: Running = inject('tenon'),
): Promise<ReceivedEvent[]> {
  const controller = new AbortController()
  open.push(controller)
  const response = await fetch(`${at.url}${path}`, {
    headers: { ...as, ...headers },
    signal: controller.signal,
  })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const received: ReceivedEvent[] = []
  void gather(response, received).catch(() => {})
  await eventually(async () => received.find(({ event }) => event === 'ready'))
  return received
}

async function gather(response: Response, received: ReceivedEvent[]): Promise<void> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    const frames = text.split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) {
      const field = (name: string) => new RegExp(`^${name}: ([^\\n]*)`, 'm').exec(frame)?.[1]
      const data = field('data')
      if (data !== undefined)
        received.push({ id: field('id'), event: field('event'), data: JSON.parse(data) })
    }
  }
}

/** Without `ready`, `gap` and `end`. */
export const messages = (received: readonly ReceivedEvent[]) =>
  received.filter(({ event }) => event === undefined)

export const receivedAtLeast = (received: readonly ReceivedEvent[], count: number, ms?: number) =>
  eventually(async () => (messages(received).length >= count ? messages(received) : undefined), ms)

/** The frame that ends the stream. */
export const findEnd = (received: readonly ReceivedEvent[]): ReceivedEvent | undefined =>
  received.find(({ event }) => event === 'end')

/** Waits until the stream ends. @returns the code of its end */
export const endOf = (received: readonly ReceivedEvent[], ms?: number): Promise<string> =>
  eventually(async () => findEnd(received)?.data.code as string | undefined, ms)
