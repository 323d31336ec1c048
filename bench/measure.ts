/** Timing of one thing against another in one run: turns are taken, so that both see the same machine. */

export interface Figures {
  readonly p50Ms: number
  readonly p99Ms: number
}

/** One after the other, `rounds` times each, interleaved, after a tenth of that as warm-up. */
export async function interleaved<Name extends string>(
  rounds: number,
  works: Readonly<Record<Name, () => Promise<unknown>>>,
): Promise<Record<Name, Figures>> {
  const names = Object.keys(works) as Name[]
  const times = new Map<Name, number[]>(names.map((name) => [name, []]))
  for (let round = -Math.ceil(rounds / 10); round < rounds; round++) {
    for (const name of names) {
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

/** How many per second with `lanes` at once, for `ms`. */
export async function throughput(lanes: number, ms: number, work: () => Promise<unknown>): Promise<number> {
  const until = performance.now() + ms
  let done = 0
  const lane = async () => {
    while (performance.now() < until) {
      await work()
      done += 1
    }
  }
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: lanes }, lane))
  return (done * 1_000) / (performance.now() - startedMs)
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
