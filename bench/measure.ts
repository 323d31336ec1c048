/** Timing of one thing against another in one run: turns are taken, so that both see the same machine. */

const isOnce = process.env['BENCH_ONCE'] === '1'

/**
 * A size, or a number of repetitions. With `BENCH_ONCE=1` a benchmark checks that it works and measures nothing.
 * @param once the size that is enough for the check
 */
export const sized = (full: number, once: number): number => (isOnce ? once : full)

export interface Figures {
  readonly p50Ms: number
  readonly p99Ms: number
}

/**
 * One after the other, `rounds` times each, after a tenth of that as warm-up. Each round has its own order, and nobody follows
 * upon itself: what one leaves to be done in the background is in the way of each other equally often.
 */
export async function interleaved<Name extends string>(
  rounds: number,
  works: Readonly<Record<Name, () => Promise<unknown>>>,
): Promise<Record<Name, Figures>> {
  const names = Object.keys(works) as Name[]
  const times = new Map<Name, number[]>(names.map((name) => [name, []]))
  const counted = sized(rounds, 1)
  let last: Name | undefined
  for (let round = -Math.ceil(counted / 10); round < counted; round++) {
    for (const name of shuffled(names, last)) {
      last = name
      const startedMs = performance.now()
      await works[name]()
      if (round >= 0) times.get(name)?.push(performance.now() - startedMs)
    }
  }
  return Object.fromEntries(names.map((name) => [name, figuresOf(times.get(name) ?? [])])) as Record<
    Name,
    Figures
  >
}

/** In any order that does not begin with `last`. */
function shuffled<Name>(names: readonly Name[], last: Name | undefined): readonly Name[] {
  const order = names
    .map((name) => ({ name, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name)
  return order[0] === last && order.length > 1 ? shuffled(names, last) : order
}

/** How many per second with `lanes` at once, for `ms`. */
export async function throughput(lanes: number, ms: number, work: () => Promise<unknown>): Promise<number> {
  return (await crowd(lanes, ms, work)).perS
}

export interface Rates extends Figures {
  /** The median of the rounds. */
  readonly perS: number
  /** Of the processor's time, each; 0 where nobody tells. */
  readonly cpuUs: number
}

interface Contest<Name> {
  readonly rounds: number
  readonly lanes: number
  readonly ms: number
  /** The processor's time that the work's servers have used until now. */
  readonly usedUs?: (name: Name) => number
}

/** Before it is measured, each is asked so often: a program that was started just now is slow at first. */
const WARM_UP = sized(10_000, 1)
const WARM_UP_MS = 1_000

/** Asks each until it is as quick as it becomes. */
export async function warmUp(
  lanes: number,
  works: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<void> {
  for (const work of Object.values(works)) {
    for (let done = 0; done < WARM_UP; ) done += (await crowd(lanes, WARM_UP_MS, work)).times.length
  }
}

/** As {@link throughput}, several works turn by turn, `rounds` times each. */
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
      await work()
      now = performance.now()
      times.push(now - begunMs)
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

function figuresOf(times: readonly number[]): Figures {
  const sorted = [...times].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

/** A table row. */
export function print(...cells: (string | number)[]): void {
  const [first = '', ...rest] = cells.map((cell) => (typeof cell === 'number' ? cell.toFixed(2) : cell))
  process.stdout.write(`${first.padEnd(38)}${rest.map((cell) => cell.padStart(14)).join('')}\n`)
}
