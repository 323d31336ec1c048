/** Follows the runs of a function without missing one, and prints their lines. */

import { setTimeout as delay } from 'node:timers/promises'
import { type ApiClient, ApiError, parseFrames } from '../client.ts'
import { printError } from '../verb.ts'
import { type Line, printRun, printRunError, printRunLine, type Run } from './run-lines.ts'

const POLL_MS = 1_000
/** How much later than a younger run a run may appear, since its transaction took longer. */
const OVERLAP_MS = 5_000

/**
 * Prints the given runs, and all that are created after them, until the verb is interrupted.
 * @param shown the newest runs, oldest first
 */
export async function followAll(
  client: ApiClient,
  path: string,
  printedRuns: readonly Run[],
): Promise<never> {
  const later = new LaterRuns(client, path, printedRuns)
  for (let found = printedRuns; ; found = await later.next()) {
    for (const run of found) {
      // The lines of a run that has ended take one request, and no stream, of which a client has few.
      if (run.ended_at !== null) await repeat(() => printRun(client, path, run)).catch(printError)
      else void followRun(client, path, run.id).catch(printError)
    }
    await delay(POLL_MS)
  }
}

/** The runs that are created after some others. Ids do not tell: that of a run for an event has the time of the event. */
class LaterRuns {
  readonly #client: ApiClient
  readonly #path: string
  /** Ids of the runs of the last `OVERLAP_MS`, with the time of their creation. */
  readonly #known: Map<string, number>
  /** Runs up to this time that are not known were not asked for. */
  readonly #beginMs: number
  #newestMs: number

  constructor(client: ApiClient, path: string, known: readonly Run[]) {
    this.#client = client
    this.#path = path
    this.#known = new Map(known.map((run) => [run.id, createdMs(run)]))
    this.#newestMs = Math.max(0, ...this.#known.values())
    this.#beginMs = this.#newestMs
  }

  /** Those that have appeared since the last call, oldest first. */
  async next(): Promise<readonly Run[]> {
    const sinceMs = Math.max(0, this.#newestMs - OVERLAP_MS)
    const path = `${this.#path}/runs?since=${new Date(sinceMs).toISOString()}`
    const found = await repeat(() => this.#client.list<Run>(path))
    const later = found.filter((run) => !this.#known.has(run.id) && createdMs(run) > this.#beginMs)
    for (const run of found) this.#known.set(run.id, createdMs(run))
    this.#newestMs = Math.max(this.#newestMs, ...later.map(createdMs))
    for (const [id, ms] of this.#known) if (ms < sinceMs) this.#known.delete(id)
    return later.toSorted((a, b) => createdMs(a) - createdMs(b))
  }
}

const createdMs = ({ created_at }: Run): number => Date.parse(created_at)

/** Prints the lines of a run until it ends. A stream that breaks is continued after the last line. */
export async function followRun(client: ApiClient, path: string, id: string): Promise<void> {
  const run = `${path}/runs/${id}`
  for (let after = 0; ; await delay(POLL_MS)) {
    const headers = { 'last-event-id': String(after) }
    const response = await repeat(() => client.send('GET', `${run}/logs/stream`, { headers }))
    const end = await printStream(id, response, (seq) => {
      after = seq
    }).catch(() => undefined)
    if (end === 'ended') break
  }
  printRunError(await repeat(() => client.get<Run>(run)))
}

/** @param onLine gets the `seq` of each line that was printed @returns why the stream ends */
async function printStream(
  id: string,
  response: Response,
  onLine: (seq: number) => void,
): Promise<string | undefined> {
  for await (const { event, data } of parseFrames(response)) {
    if (event === 'end') return (JSON.parse(data) as { code: string }).code
    if (event !== undefined) continue
    const line = JSON.parse(data) as Line
    printRunLine(id, line)
    onLine(line.seq)
  }
  return undefined
}

/** Repeats a request that the platform refuses for now: too many requests or streams, or a failure of its own. */
async function repeat<T>(request: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await request()
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status < 500 && error.status !== 429)) throw error
      await delay(POLL_MS)
    }
  }
}
