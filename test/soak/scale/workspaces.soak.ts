/**
 * 2,000 workspaces with 50 documents and two declared collections each, made through the API: what they cost a connection, PostgreSQL's catalogue,
 * the start of processes and a backup, beside the same figures of 20. `npm run test:scale -- -t workspaces`.
 */

import type { ChildProcess } from 'node:child_process'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { privateMb, residentMb } from '../../support/clients/resident-memory.ts'
import { asSuperuser, type Caller, call, sharedOperator, unique } from '../../support/fixtures/tenants.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { backUp, openInstallation } from '../../support/stack/back-up.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { startWorker } from '../../support/stack/worker-process.ts'

const MANY = Number(process.env['TENON_SCALE_WORKSPACES'] ?? 2_000)
const FEW = MANY / 100
const PER_TENANT = 50
const LANES = 6
const COLLECTIONS = ['orders', 'customers']
const DOCUMENTS = 25
const SCHEMA = {
  type: 'object',
  properties: {
    code: { type: 'string' },
    amount: { type: 'integer' },
    at: { type: 'string', format: 'date-time' },
  },
}

interface Made {
  readonly id: string
  readonly service: Caller
}

let own: OwnPlatform
let at: Running
const made: Made[] = []
const table: Record<string, Record<string, number | string>> = {}

beforeAll(async () => {
  own = await ownPlatform({ lasting: true, checkReplies: false })
  at = own.started.running
})
afterAll(async () => {
  console.table(table)
  await own?.end()
})

async function send(as: Caller, path: string, body: object, headers: Record<string, string> = {}) {
  const reply = await call('POST', path, { as, at, body, headers })
  expect(reply.status, `${path}: ${JSON.stringify(reply.body).slice(0, 500)}`).toBeLessThan(300)
  return reply.body
}

async function makeWorkspace(tenantId: string): Promise<void> {
  const as = await sharedOperator(at)
  const slug = unique('w')
  const body = { tenant_id: tenantId, name: slug, slug, bucket: null }
  const { id } = await send(as, '/v1/workspaces', body, { prefer: 'wait=30' })
  const { key: apikey } = await send(as, '/v1/api-keys', { workspace_id: id, kind: 'service', name: 'scale' })
  for (const collection of COLLECTIONS) {
    const declaration = { workspace_id: id, collection, store: 'relational', schema: SCHEMA, mode: 'enforce' }
    await send(as, '/v1/schemas', { ...declaration, unique: [['code']] })
    const ops = Array.from({ length: DOCUMENTS }, (_, n) => ({
      op: 'create',
      data: { code: `${slug}-${n}`, amount: n, at: '2026-01-01T00:00:00Z', note: 'x'.repeat(200) },
    }))
    await send({ apikey }, `/v1/collections/${collection}/batch`, { ops })
  }
  made.push({ id, service: { apikey } })
}

/** Several at once; each tenant has {@link PER_TENANT}. */
async function fill(count: number): Promise<void> {
  const tenants: string[] = []
  for (let n = made.length; n < count; n += PER_TENANT) {
    const body = { name: 'Scale', slug: unique('t') }
    tenants.push((await send(await sharedOperator(at), '/v1/tenants', body, { prefer: 'wait=30' })).id)
  }
  const places = Array.from(
    { length: count - made.length },
    (_, n) => tenants[n % tenants.length] ?? '',
  ).values()
  const lane = async () => {
    for (const tenantId of places) await makeWorkspace(tenantId)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

const backends = async () =>
  new Set(
    (
      await asSuperuser<{ pid: number }>(
        "select pid from pg_stat_activity where application_name = 'tenon'",
        [],
        at,
      )
    ).map(({ pid }) => pid),
  )

/** An API with the smallest pool reads both collections of each workspace, one after the other: so few connections see all of them. */
async function measureConnections(): Promise<Record<string, number>> {
  const before = await backends()
  const { process, at: api, stop } = await startApi({ DATABASE_POOL_MAX: '4' }, at)
  try {
    for (const { service } of made)
      for (const collection of COLLECTIONS) {
        const { status } = await call('GET', `/v1/collections/${collection}/documents`, {
          as: service,
          at: api,
        })
        expect(status).toBe(200)
      }
    const own = [...(await backends())].filter((pid) => !before.has(pid))
    // Without what PostgreSQL's processes share.
    const sizes = await Promise.all(own.map(privateMb))
    return { 'largest connection MiB': Math.max(...sizes), 'API MiB': await residentMb(process.pid ?? 0) }
  } finally {
    await stop()
  }
}

const secondsOf = async (work: () => Promise<unknown>): Promise<number> => {
  const startedMs = performance.now()
  await work()
  return Math.round((performance.now() - startedMs) / 100) / 10
}

async function measureStarts(): Promise<Record<string, number>> {
  const stops: (() => unknown)[] = []
  const api = await secondsOf(async () => stops.push((await startApi({}, at)).stop))
  const worker = await secondsOf(async () => {
    const process: ChildProcess = await startWorker(at)
    stops.push(() => process.kill('SIGKILL'))
  })
  for (const stop of stops) await stop()
  return { 'API start s': api, 'worker start s': worker }
}

const CATALOGUE = `select
  (select count(*) from pg_class where relkind = 'r')::int as tables,
  (select count(*) from pg_class where relkind = 'i')::int as indexes,
  (select count(*) from pg_policy)::int as policies,
  (select round(sum(pg_total_relation_size(c.oid)) / 1048576)::int from pg_class c where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r') as "catalogue MiB",
  round(pg_database_size(current_database()) / 1048576.0)::int as "database MiB",
  (select sum(n_dead_tup)::int from pg_stat_sys_tables) as "dead rows of the catalogue",
  (select sum(autovacuum_count)::int from pg_stat_sys_tables) as "autovacuums of the catalogue",
  (select sum(autovacuum_count)::int from pg_stat_user_tables) as "autovacuums of tables"`

async function measureBackup(): Promise<Record<string, number>> {
  const [folder, received] = [join(own.dir, unique('repository')), join(own.dir, 'received')]
  const installation = await openInstallation(at, received)
  try {
    const seconds = await secondsOf(() => backUp(installation, folder))
    return { 'backup s': seconds, 'backup MiB': Math.round((await sizeOf(folder)) / 1_048_576) }
  } finally {
    installation.objects.destroy()
    await rm(folder, { recursive: true, force: true })
  }
}

async function sizeOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(({ parentPath, name }) => stat(join(parentPath, name))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}

test.each([FEW, MANY])(
  '%i workspaces with two declared collections each: each has its documents, and an API and a worker start',
  async (count) => {
    const seconds = await secondsOf(() => fill(count))
    const [catalogue] = await asSuperuser<Record<string, number>>(CATALOGUE, [], at)
    const figures = {
      'made in s': seconds,
      ...catalogue,
      ...(await measureConnections()),
      ...(await measureStarts()),
    }
    for (const [name, value] of Object.entries({ ...figures, ...(await measureBackup()) }))
      table[name] = { ...table[name], [`${count} workspaces`]: value }
    const stored = await asSuperuser<{ count: string }>(
      "select count(*) from pg_class where relnamespace = 'tenon_data'::regnamespace and relkind = 'r'",
      [],
      at,
    )
    expect(Number(stored[0]?.count)).toBe(count * COLLECTIONS.length)
  },
)
