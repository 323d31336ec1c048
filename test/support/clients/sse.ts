/** Subscribes to event streams for the time of a test, and collects their frames. */

import { expect, inject } from 'vitest'
import { type Caller, eventually } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'

export interface Heard {
  readonly id: string | undefined
  readonly event: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every shape
  readonly data: any
}

const open: AbortController[] = []

/** Call in `afterEach`. */
export function stopHearing(): void {
  for (const controller of open.splice(0)) controller.abort()
}

/** Subscribes and collects; resolves when the stream is ready. */
export const hear = (
  as: Caller,
  query: string,
  headers: Record<string, string> = {},
  at: Running = inject('tenon'),
): Promise<Heard[]> => listen(as, `/v1/events/subscribe?${query}`, headers, at)

/** The same with any stream. */
export async function listen(
  as: Caller,
  path: string,
  headers: Record<string, string> = {},
  at: Running = inject('tenon'),
): Promise<Heard[]> {
  const controller = new AbortController()
  open.push(controller)
  const response = await fetch(`${at.url}${path}`, {
    headers: { ...as, ...headers },
    signal: controller.signal,
  })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const heard: Heard[] = []
  void gather(response, heard).catch(() => {})
  await eventually(async () => heard.find(({ event }) => event === 'ready'))
  return heard
}

async function gather(response: Response, heard: Heard[]): Promise<void> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    const frames = text.split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) {
      const field = (name: string) => new RegExp(`^${name}: ([^\\n]*)`, 'm').exec(frame)?.[1]
      const data = field('data')
      if (data !== undefined) heard.push({ id: field('id'), event: field('event'), data: JSON.parse(data) })
    }
  }
}

/** Without `ready`, `gap` and `end`. */
export const messages = (heard: readonly Heard[]) => heard.filter(({ event }) => event === undefined)

export const heardAtLeast = (heard: readonly Heard[], count: number, ms?: number) =>
  eventually(async () => (messages(heard).length >= count ? messages(heard) : undefined), ms)
