/**
 * Measures collections with all features on, against bare `pg` behind the same HTTP server and against
 * PostgREST, in one run.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ports } from '../stack/ports.ts'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { CONNECTIONS, type Competitor, limit, ourPage, ours, postgrest } from './collections/competitors.ts'
import { DOCUMENTS, loadDocuments, type Place } from './collections/documents.ts'
import { startPostgrest } from './collections/postgrest.ts'
import { usedUs } from './cpu.ts'
import { sender } from './http.ts'
import { contest, interleaved, print, type Rates, sized, warmUp } from './measure.ts'

const TURN = { rounds: 7, ms: 800 }
/** A few concurrent requests, and as many as each competitor needs for its full rate. */
const LANES = [16, CONNECTIONS]
const PAGE_ROUNDS = 300
const DEEP = sized(1_000, 50)
const KINDS = ['get', 'page', 'insert', 'update'] as const
type Kind = (typeof KINDS)[number]

/** Prints all results; takes about six minutes. @param only some of the kinds */
export async function collections(only: readonly string[]): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    const places = await loadDocuments(started.running)
    process.stdout.write(`${DOCUMENTS} documents in each of ${places.length} tenants\n`)
    await pages(places)
    const competitors = await competitorsOf(started, dir, places)
    for (const kind of KINDS.filter((each) => only.length === 0 || only.includes(each)))
      await compare(kind, competitors, started)
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}

async function pages([place]: readonly Place[]): Promise<void> {
  if (place === undefined) return
  const send = sender(place.url, { apikey: place.apikey }, 1)
  const [first, last] = [await ourPage(send, 1), await ourPage(send, DEEP)]
  const figures = await interleaved(PAGE_ROUNDS, {
    'page 1': () => send('GET', first),
    'deep page': () => send('GET', last),
  })
  print(`\nfilter, order; page 1, page ${DEEP}`, 'p50 ms', 'p99 ms', '× page 1')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    print(name, p50Ms, p99Ms, p50Ms / figures['page 1'].p50Ms)
  }
}

async function competitorsOf(started: Started, dir: string, places: readonly Place[]) {
  const competitors = {
    limit: await limit(await startLimit(started, dir), places),
    Tenon: await ours(places),
  }
  try {
    const claims = { tenant_id: 'tenant_id', workspace_id: 'workspace_id' }
    const peer = await startPostgrest(started, dir, { tables: ['peer'], claims })
    return { ...competitors, PostgREST: await postgrest(peer, places) }
  } catch (error) {
    process.stdout.write(`\nwithout PostgREST: ${(error as Error).message}\n`)
    return competitors
  }
}

async function startLimit({ stack, running }: Started, dir: string): Promise<string> {
  const port = await new Ports({ remembered: {}, any: true }).take('limit', 0)
  const url = `http://127.0.0.1:${port}`
  await stack.supervisor.run({
    name: 'limit',
    command: process.execPath,
    args: [fileURLToPath(new URL('collections/limit-server.ts', import.meta.url))],
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { DATABASE_URL: running.databaseUrl, PORT: String(port), NODE_ENV: 'production' },
    logFile: join(dir, 'logs', 'limit.log'),
    ready: async () => {
      await fetch(url)
    },
  })
  return url
}

/** Name of each competitor's server in the supervisor; the database's CPU time is added. */
const SERVERS: Readonly<Record<string, string>> = { limit: 'limit', Tenon: 'api', PostgREST: 'postgrest' }

async function compare(
  kind: Kind,
  competitors: Readonly<Record<string, Competitor>>,
  { stack: { supervisor } }: Started,
): Promise<void> {
  const used = (name: string) =>
    usedUs(supervisor.pid(SERVERS[name] ?? '')) + usedUs(supervisor.pid('postgres'))
  const works = Object.fromEntries(Object.entries(competitors).map(([name, one]) => [name, one[kind]]))
  await warmUp(CONNECTIONS, works)
  for (const lanes of LANES)
    printRates(`\n${kind}, ${lanes} at once`, await contest({ ...TURN, lanes, usedUs: used }, works))
}

function printRates(title: string, rates: Readonly<Record<string, Rates>>): void {
  print(title, 'per s', 'p99 ms', 'cpu µs', '× limit', 'cpu ×', '× PostgREST', 'cpu ×', 'p99 ×')
  const { limit: bound, PostgREST: peer } = rates
  for (const [name, of] of Object.entries(rates)) {
    const { perS, p99Ms, cpuUs } = of
    print(name, perS, p99Ms, cpuUs, ...against(of, bound).slice(0, 2), ...against(of, peer))
  }
}

/** Rate, CPU time and p99 as multiples of another's; empty if there is no other. */
const against = ({ perS, p99Ms, cpuUs }: Rates, other: Rates | undefined): number[] =>
  other === undefined ? [] : [perS / other.perS, cpuUs / other.cpuUs, p99Ms / other.p99Ms]
