/** A tenant that reads one document again and again while something happens to another one. */

import { setTimeout as pause } from 'node:timers/promises'
import type { TestWorkspace } from '../fixture.ts'
import { type Send, sender } from '../http.ts'
import { figuresOf, print, sized } from '../measure.ts'

const IDLE_MS = sized(15_000, 200)
/** Between two reads, so that they wait for nothing but what they are measured beside. */
const PERIOD_MS = 10

/** Runs work, and prints the reads beside it and beside nothing. @param titleOf a text for the table, by the seconds that the work took */
export async function printReadsBeside(
  reader: TestWorkspace,
  work: () => Promise<void>,
  titleOf: (seconds: string) => string,
): Promise<void> {
  const read = await openReader(reader)
  await read(() => false, sized(2_000, 1))
  const idle = await read(() => false, IDLE_MS)
  let isDone = false
  const startedMs = performance.now()
  const done = work().finally(() => {
    isDone = true
  })
  const [beside] = await Promise.all([read(() => isDone), done])
  const took = (performance.now() - startedMs) / 1_000
  print(titleOf(took.toFixed(1)), 'p50 ms', 'p99 ms')
  const [before, during] = [figuresOf(idle), figuresOf(beside)]
  print('read, nothing else', before.p50Ms, before.p99Ms)
  print('read, beside it', during.p50Ms, during.p99Ms)
  print('ratio', during.p50Ms / before.p50Ms, during.p99Ms / before.p99Ms)
}

/** @returns reads until it is told to stop or a time is over: milliseconds of each */
async function openReader({ url, apikey }: TestWorkspace) {
  const send: Send = sender(url, { apikey }, 1)
  const path = '/v1/collections/bench/documents'
  const { id } = JSON.parse(await send('POST', path, '{"n":1}')) as { id: string }
  return async (isOver: () => boolean, ms = Number.POSITIVE_INFINITY): Promise<number[]> => {
    const times: number[] = []
    for (const untilMs = performance.now() + ms; performance.now() < untilMs && !isOver(); ) {
      const begunMs = performance.now()
      await send('GET', `${path}/${id}`)
      times.push(performance.now() - begunMs)
      await pause(PERIOD_MS)
    }
    return times
  }
}
