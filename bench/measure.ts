/** Measures several works in one run, alternating, so that all see the same machine. */

import { setTimeout as delay } from 'node:timers/promises'
import { LostConnection } from './http.ts'

const isOnce = process.env['BENCH_ONCE'] === '1'

/**
 * A size, or a number of repetitions. With `BENCH_ONCE=1` a benchmark checks that it works and measures
 * nothing. @param once the size that is enough for the check
 */
export const sized = (full: number, once: number): number => (isOnce ? once : full)

/** A benchmark that loses more connections ends: its server is gone. */
const LOST_MAX = 100
let lost = 0

/** The number of connections that were lost during measurements. Their calls are in no figure. */
export const lostConnections = (): number => lost

/** @returns false if the connection was lost @throws LostConnection if too many were */
async function completes(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (!(error instanceof LostConnection) || ++lost > LOST_MAX) throw error
    return false
  }
}

export interface Figures {
  readonly p50Ms: number
  readonly p99Ms: number
}

/**
 * Measures each once per round, for `rounds` rounds, after a tenth of that as warm-up. Each round has its own
 * order and none follows itself, so that background work that one leaves behind slows the others equally
 * often.
 * @param pauseMs after each work, for what goes on after its reply
 */
export async function interleaved<Name extends string>(
  rounds: number,
  works: Readonly<Record<Name, () => Promise<unknown>>>,
  pauseMs = 0,
): Promise<Record<Name, Figures>> {
  const names = Object.keys(works) as Name[]
  const times = new Map<Name, number[]>(names.map((name) => [name, []]))
  const counted = sized(rounds, 1)
  let last: Name | undefined
  for (let round = -Math.ceil(counted / 10); round < counted; round++) {
    for (const name of shuffled(names, last)) {
      last = name
      const startedMs = performance.now()
      const isComplete = await completes(works[name])
      if (round >= 0 && isComplete) times.get(name)?.push(performance.now() - startedMs)
      if (pauseMs > 0) await delay(pauseMs)
    }
  }
  return Object.fromEntries(names.map((name) => [name, figuresOf(times.get(name) ?? [])])) as Record<
    Name,
    Figures
  >
}

/** Any order that does not begin with `last`. */
function shuffled<Name>(names: readonly Name[], last: Name | undefined): readonly Name[] {
  const order = names
    .map((name) => ({ name, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name)
  return order[0] === last && order.length > 1 ? shuffled(names, last) : order
}

/** Calls per second with `lanes` concurrent calls, for `ms`. */
export async function throughput(lanes: number, ms: number, work: () => Promise<unknown>): Promise<number> {
  return (await crowd(lanes, ms, work)).perS
}

export interface Rates extends Figures {
  /** The median of the rounds. */
  readonly perS: number
  /** CPU time per call; 0 if unknown. */
  readonly cpuUs: number
}

interface Contest<Name> {
  readonly rounds: number
  readonly lanes: number
  readonly ms: number
  /** CPU time that the work's servers have used until now. */
  readonly usedUs?: (name: Name) => number
}

/** Minimum number of warm-up calls: a program that was just started is slow at first. */
const WARM_UP = sized(10_000, 1)
const WARM_UP_MS = 1_000

/** Calls each until it no longer becomes faster. */
export async function warmUp(
  lanes: number,
  works: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<void> {
  for (const work of Object.values(works)) {
    for (let done = 0; done < WARM_UP; ) done += (await crowd(lanes, WARM_UP_MS, work)).times.length
  }
}

/** As {@link throughput}, alternating between several works, `rounds` times each. */
export async function contest<Name extends string>(
  { rounds, lanes, ms, usedUs = () => 0 }: Contest<Name>,
  works: Readonly<Record<Name, () => Promise<unknown>>>,
): Promise<Record<Name, Rates>> {
  const names = Object.keys(works) as Name[]
  const turns = new Map<Name, Turn[]>(names.map((name) => [name, []]))
  for (let round = 0; round < sized(rounds, 1); round++) {
    for (const name of names) {
      const before = usedUs(name)
      const turn = await crowd(lanes, ms, works[name])
      turns.get(name)?.push({ ...turn, usedUs: usedUs(name) - before })
    }
  }
  return Object.fromEntries(names.map((name) => [name, ratesOf(turns.get(name) ?? [])])) as Record<
    Name,
    Rates
  >
}

interface Crowd {
  readonly perS: number
  readonly times: readonly number[]
}

interface Turn extends Crowd {
  readonly usedUs: number
}

async function crowd(lanes: number, ms: number, work: () => Promise<unknown>): Promise<Crowd> {
  const startedMs = performance.now()
  const untilMs = startedMs + sized(ms, 1)
  const times: number[] = []
  const lane = async () => {
    for (let now = performance.now(); now < untilMs; ) {
      const begunMs = now
      const isComplete = await completes(work)
      now = performance.now()
      if (isComplete) times.push(now - begunMs)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return { perS: (times.length * 1_000) / (performance.now() - startedMs), times }
}

function ratesOf(turns: readonly Turn[]): Rates {
  const times = turns.flatMap((turn) => turn.times)
  const usedUs = turns.reduce((sum, turn) => sum + turn.usedUs, 0)
  const rates = turns.map(({ perS }) => perS).sort((a, b) => a - b)
  return { perS: rates[rates.length >> 1] ?? 0, cpuUs: usedUs / times.length, ...figuresOf(times) }
}

export function figuresOf(times: readonly number[]): Figures {
  const sorted = [...times].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

/** A table row. */
export function print(...cells: (string | number)[]): void {
  const [first = '', ...rest] = cells.map((cell) => (typeof cell === 'number' ? cell.toFixed(2) : cell))
  process.stdout.write(`${first.padEnd(38)}${rest.map((cell) => cell.padStart(14)).join('')}\n`)
}
