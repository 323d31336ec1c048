/** Requests for documents of one workspace, at any API of its installation, and the table of what they achieve. */

import type { Running } from '../../test/support/stack/start.ts'
import { createTestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { contest, print, warmUp } from '../measure.ts'

const LANES = [1, 16] as const
const TURN = { rounds: 7, ms: 2_000 } as const
const PATH = '/v1/collections/bench/documents'

/** Requests by their kind. */
type Requests = Readonly<Record<'get' | 'insert', () => Promise<unknown>>>

/** @returns the requests of one API, by its URL */
export async function documentsAt(running: Running): Promise<(url: string) => Requests> {
  const { apikey } = await createTestWorkspace(running)
  const lanes = Math.max(...LANES)
  const { id } = JSON.parse(await sender(running.url, { apikey }, 1)('POST', PATH, '{"n":1}')) as {
    id: string
  }
  return (url) => {
    const send = sender(url, { apikey }, lanes)
    return { get: () => send('GET', `${PATH}/${id}`), insert: () => send('POST', PATH, '{"n":1}') }
  }
}

/**
 * Prints requests per second of each side, and of the first one.
 * @param sides the first is the one that the others are compared with
 * @param usedUs processor time that a side has used until now
 */
export async function compareSides(
  sides: Readonly<Record<string, Requests>>,
  usedUs?: (name: string) => number,
): Promise<void> {
  for (const kind of ['get', 'insert'] as const) {
    const works = Object.fromEntries(Object.entries(sides).map(([name, requests]) => [name, requests[kind]]))
    await warmUp(Math.max(...LANES), works)
    for (const lanes of LANES) {
      const rates = await contest({ ...TURN, lanes, ...(usedUs && { usedUs }) }, works)
      const [first] = Object.values(rates)
      const isMeasured = usedUs !== undefined
      print(`\n${kind}, ${lanes} at once`, 'per s', '×', 'p50 ms', ...(isMeasured ? ['CPU µs', 'CPU ×'] : []))
      for (const [name, { perS, p50Ms, cpuUs }] of Object.entries(rates)) {
        const used = isMeasured ? [cpuUs, cpuUs / (first?.cpuUs ?? cpuUs)] : []
        print(name, perS, perS / (first?.perS ?? perS), p50Ms, ...used)
      }
    }
  }
}
