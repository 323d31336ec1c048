/** Compares the processor time per request of several processes, in turns of one run: what they pay for a feature that one has and another has not. */

import { type Send, sender } from '../http.ts'
import { print, sized, warmUp } from '../measure.ts'

const LANES = 8
const ROUNDS = sized(600, 1)
/** Of one turn, which is short, so that both sides of a ratio see the same load of the machine. */
const REQUESTS = sized(80, 8)

/** A process that answers the requests. */
export interface Side {
  readonly name: string
  readonly url: string
  /** Nanoseconds of processor time that it has used until now. */
  readonly usedNs: () => number
}

type Request = (send: Send) => Promise<unknown>

/**
 * Prints the median processor time per request of each side, and the median of its ratio to the first side in the same round. A side
 * that is configured as the first shows how far noise moves the ratio.
 * @param headers of all requests
 */
export async function compare(
  title: string,
  sides: readonly [Side, ...Side[]],
  headers: Readonly<Record<string, string>>,
  request: Request,
): Promise<void> {
  const works = sides.map(({ url }) => {
    const send = sender(url, headers, LANES)
    return () => request(send)
  })
  await warmUp(LANES, Object.fromEntries(works.map((work, at) => [at, work])))
  const costs: number[][] = sides.map(() => [])
  for (let round = 0; round < ROUNDS; round++) {
    // Another side begins each round.
    for (let turn = 0; turn < sides.length; turn++) {
      const at = (turn + round) % sides.length
      const [side, work] = [sides[at], works[at]]
      if (side !== undefined && work !== undefined) costs[at]?.push(await costOf(side, work))
    }
  }
  print(`\n${title}`, 'CPU µs', `× ${sides[0].name}`, 'quarter', 'three quarters')
  for (const [at, { name }] of sides.entries()) {
    const ratios = (costs[at] ?? []).map((cost, round) => cost / (costs[0]?.[round] ?? cost))
    const [low, median, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share))
    print(name, quantile(costs[at] ?? [], 0.5), median ?? 0, low ?? 0, high ?? 0)
  }
}

/** Microseconds of processor time per request. */
async function costOf({ usedNs }: Side, work: () => Promise<unknown>): Promise<number> {
  const before = usedNs()
  let left = REQUESTS
  const lane = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return (usedNs() - before) / REQUESTS / 1_000
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
