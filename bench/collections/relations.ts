/**
 * Measures related documents and aggregates against PostgREST with equal policies, and aggregates and searches against the bare
 * statement, in one run.
 */

import { dirname } from 'node:path'
import { Pool } from 'pg'
import type { Started } from '../../test/support/stack/start.ts'
import { usedUs } from '../cpu.ts'
import type { TestWorkspace } from '../fixture.ts'
import { type Send, sender } from '../http.ts'
import { contest, interleaved, print, sized } from '../measure.ts'
import { type Postgrest, startPostgrest } from './postgrest.ts'
import { loadRelated } from './related-documents.ts'

const ITEMS = sized(100_000, 2_000)
const ORDERS = ITEMS / 5
const ROUNDS = 400
const LANES = 16
const TURN = { rounds: 7, ms: 800 }

type Works = Readonly<Record<string, () => Promise<unknown>>>

interface Case {
  readonly ours: string
  readonly theirs?: string
  /** With the workspace as its parameter. */
  readonly bare?: string
  /** True if it is measured with many requests at once, too. */
  readonly isCrowded?: true
}

/** One request of each, and its count of documents: the same question. */
const CASES: Readonly<Record<string, Case>> = {
  'expand: 20 orders, customer, 5 items': {
    ours: `orders/documents?amount=gte.${ORDERS / 2}&order=amount&page[size]=20&expand=customer(name),items(position,price;order=position;size=5)`,
    theirs: `orders?amount=gte.${ORDERS / 2}&order=amount,id&limit=21&select=id,customer_id,status,amount,customer:customers(name),items(position,price)&items.order=position&items.limit=5`,
    isCrowded: true,
  },
  'page: 20 orders': {
    ours: `orders/documents?amount=gte.${ORDERS / 2}&order=amount&page[size]=20`,
    theirs: `orders?amount=gte.${ORDERS / 2}&order=amount,id&limit=21&select=id,customer_id,status,amount`,
    isCrowded: true,
  },
  'filter: 20 orders of customers with plan': {
    ours: 'orders/documents?customer.plan=eq.pro&order=amount&page[size]=20',
    theirs:
      'orders?customers.plan=eq.pro&order=amount,id&limit=21&select=id,customer_id,status,amount,customers!inner()',
    isCrowded: true,
  },
  'filter: 20 customers with a paid order': {
    ours: 'customers/documents?orders=some.(status.eq.paid)&order=id&page[size]=20',
    theirs: 'customers?orders.status=eq.paid&order=id&limit=21&select=id,name,plan,orders!inner()',
    isCrowded: true,
  },
  'aggregate: items by price of an order': {
    ours: 'items/aggregate?select=position,n:count(),total:price.sum()&price=lt.500',
    theirs: 'items?select=position,n:count(),total:price.sum()&price=lt.500',
    bare: `select position, count(*) as n, sum(price) as total from bench.items
      where workspace_id = $1 and price < 500 group by position`,
  },
  'aggregate: all items': {
    ours: 'items/aggregate?select=n:count(),total:price.sum(),mean:price.avg()',
    theirs: 'items?select=n:count(),total:price.sum(),mean:price.avg()',
    bare: `select count(*) as n, sum(price) as total, avg(price) as mean from bench.items where workspace_id = $1`,
  },
  'search: the best 20 of 5 % of the notes': { ours: best('often'), bare: bareBest('often') },
  'search: 20 notes of 5 %, the oldest': {
    ours: 'notes/documents?_search=wfts.often&order=id&page[size]=20',
    bare: `select id, title, body from bench.notes where workspace_id = $1 and search @@ websearch_to_tsquery('english', 'often')
      order by id limit 21`,
  },
}

function best(words: string): string {
  return `notes/documents?_search=wfts.${words}&order=_score.desc&page[size]=20`
}

function bareBest(words: string): string {
  const query = `websearch_to_tsquery('english', '${words}')`
  return `select id, title, body, ts_rank_cd(search, ${query}, 32) as score from bench.notes
    where workspace_id = $1 and search @@ ${query} order by score desc, id desc limit 21`
}

/** Prints all results; takes about five minutes. */
export async function relations(started: Started): Promise<void> {
  const pool = new Pool({ connectionString: started.running.databaseUrl, max: 1 })
  try {
    const workspace = await loadRelated(started.running, { items: ITEMS, schema: 'bench' })
    process.stdout.write(`${ITEMS} items of ${ORDERS} orders, ${ITEMS} notes\n`)
    const peer = await peerOf(started, workspace)
    for (const [title, one] of Object.entries(CASES)) {
      const { bare } = one
      const works: Works = {
        ...requestsOf(one, workspace, { lanes: 1, peer }),
        ...(bare !== undefined && { 'bare statement': () => pool.query(bare, [workspace.workspaceId]) }),
      }
      await check(title, works)
      printFigures(title, await interleaved(ROUNDS, works))
      if (one.isCrowded)
        await compareRates(started, title, requestsOf(one, workspace, { lanes: LANES, peer }))
    }
  } finally {
    await pool.end()
  }
}

type Peer = (lanes: number) => Send

function requestsOf(
  { ours, theirs }: Case,
  { url, apikey }: TestWorkspace,
  { lanes, peer }: { readonly lanes: number; readonly peer: Peer | undefined },
): Works {
  const send = sender(url, { apikey }, lanes)
  const sendPeer = theirs === undefined ? undefined : peer?.(lanes)
  return {
    Tenon: () => send('GET', `/v1/collections/${ours}`),
    ...(sendPeer !== undefined && { PostgREST: () => sendPeer('GET', `/${theirs}`) }),
  }
}

/** Name of each competitor's server in the supervisor; the database's CPU time is added. */
const SERVERS: Readonly<Record<string, string>> = { Tenon: 'api', PostgREST: 'postgrest' }

/** Their rates at once, and the CPU time of server and database for a request. */
async function compareRates({ stack: { supervisor } }: Started, title: string, works: Works): Promise<void> {
  const used = (name: string) =>
    usedUs(supervisor.pid(SERVERS[name] ?? '')) + usedUs(supervisor.pid('postgres'))
  const rates = await contest({ ...TURN, lanes: LANES, usedUs: used }, works)
  print(`${title.split(':')[0]}, ${LANES} at once`, 'per s', 'cpu µs', 'Tenon is × faster', 'cpu ×')
  const ours = rates['Tenon']
  for (const [name, { perS, cpuUs }] of Object.entries(rates))
    print(name, perS, cpuUs, ...(ours === undefined ? [] : [ours.perS / perS, ours.cpuUs / cpuUs]))
}

/** @throws Error if one finds nothing, or another number of rows than the others */
async function check(title: string, works: Works): Promise<void> {
  const counts: [string, number][] = []
  for (const [name, work] of Object.entries(works)) counts.push([name, rowsIn(await work())])
  const different = new Set(counts.map(([, count]) => count))
  if (different.size !== 1 || different.has(0)) throw new Error(`${title}: ${JSON.stringify(counts)}`)
}

function rowsIn(reply: unknown): number {
  const answer = typeof reply === 'string' ? JSON.parse(reply) : (reply as { rows: unknown[] }).rows
  const rows = answer.data ?? answer
  // PostgREST has read one row more, as Tenon does to know whether there is a further page.
  return Array.isArray(rows) ? Math.min(rows.length, 20) : 1
}

function printFigures(
  title: string,
  figures: Readonly<Record<string, { p50Ms: number; p99Ms: number }>>,
): void {
  print(`\n${title}`, 'p50 ms', 'p99 ms', 'Tenon is × faster')
  const ours = figures['Tenon']?.p50Ms ?? 0
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) print(name, p50Ms, p99Ms, p50Ms / ours)
}

/** @returns undefined if PostgREST is not available */
async function peerOf(started: Started, workspace: TestWorkspace): Promise<Peer | undefined> {
  try {
    const served = {
      tables: ['customers', 'orders', 'items'],
      claims: { tenant_id: 'tenant_id', workspace_id: 'workspace_id' },
    }
    const peer: Postgrest = await startPostgrest(started, dirname(started.running.logs), served)
    const { tenantId, workspaceId } = workspace
    const token = await peer.tokenOf({ tenant_id: tenantId, workspace_id: workspaceId })
    return (lanes) => sender(peer.url, { authorization: `Bearer ${token}` }, lanes)
  } catch (error) {
    process.stdout.write(`\nwithout PostgREST: ${(error as Error).message}\n`)
    return undefined
  }
}
