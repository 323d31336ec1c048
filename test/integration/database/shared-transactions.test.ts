/** Group commit: requests that share a transaction get their own results and do not affect each other. */

import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { postgresStore } from '../../../src/features/collections/postgres/store.ts'
import { changeStatement } from '../../../src/features/collections/postgres/write-statements.ts'
import { ALL_RIGHTS } from '../../../src/features/collections/rules/permissions.ts'
import type { Collection } from '../../../src/features/collections/store.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { coalesce } from '../../../src/infra/postgres/transaction-batcher.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const AT_ONCE = 60

let node: CountedApi
let address: string
let workspaces: [TestWorkspace, TestWorkspace]

beforeAll(async () => {
  node = await startCountedApi()
  address = await node.app.listen({ host: '127.0.0.1', port: 0 })
  workspaces = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})
afterAll(() => node?.close())

interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape
  readonly body: any
}

async function ask(
  method: 'GET' | 'POST' | 'PUT',
  as: Caller,
  path: string,
  payload?: object,
  more: Caller = {},
): Promise<Answer> {
  const reply = await fetch(`${address}/v1/collections/${path}`, {
    method,
    headers: { ...as, ...more, ...(payload && { 'content-type': 'application/json' }) },
    ...(payload && { body: JSON.stringify(payload) }),
  })
  return { status: reply.status, body: await reply.json() }
}

const many = <T>(work: (n: number) => Promise<T>, count = AT_ONCE) =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)))

const countOf = async ({ tenantId }: TestWorkspace, table: 'documents' | 'outbox') =>
  (await asSuperuser(`select from tenon.${table} where tenant_id = $1`, [tenantId])).length

test('group commit: requests of two tenants: each gets its own result', async () => {
  const [a, b] = workspaces
  await Promise.all(
    workspaces.map((workspace) => ask('POST', workspace.service, 'mine/documents', { warm: true })),
  )
  const of = (n: number) => (n % 2 === 0 ? a : b)
  const made = await many((n) => ask('POST', of(n).service, 'mine/documents', { n, of: of(n).tenantId }))
  const read = await many((n) => ask('GET', of(n).service, `mine/documents/${made[n]?.body.id}`))
  const put = await many((n) => ask('PUT', of(n).service, `mine/documents/${made[n]?.body.id}`, { m: n }))
  const foreign = await many((n) => ask('GET', of(n + 1).service, `mine/documents/${made[n]?.body.id}`))
  for (const [n, { status, body }] of made.entries())
    expect([status, body.n, body.of]).toEqual([201, n, of(n).tenantId])
  for (const [n, { status, body }] of read.entries()) expect([status, body.n]).toEqual([200, n])
  for (const [n, { status, body }] of put.entries())
    expect([status, body.m, body._version]).toEqual([200, n, 2])
  expect(new Set(foreign.map(({ status }) => status))).toEqual(new Set([404]))
})

/** Values of all types, and a change for each. */
const VALUES: Record<string, fc.Arbitrary<unknown>> = {
  title: fc.string({ unit: 'grapheme', maxLength: 20 }),
  n: fc.maxSafeInteger(),
  x: fc.double({ min: -1e15, max: 1e15, noNaN: true }).map((value) => (Math.abs(value) < 1e-9 ? 0 : value)),
  ok: fc.boolean(),
  at: fc
    .date({ min: new Date(0), max: new Date('2100-01-01Z'), noInvalidDate: true })
    .map((date) => date.toISOString()),
  tags: fc.array(fc.string({ maxLength: 5 }), { maxLength: 3 }),
  other: fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.integer(), { maxKeys: 3 }),
}
const SCHEMA = {
  type: 'object',
  properties: {
    title: { type: 'string' },
    n: { type: 'integer' },
    x: { type: 'number' },
    ok: { type: 'boolean' },
    at: { type: 'string', format: 'date-time' },
    tags: { type: 'array' },
  },
}

const fieldsOf = (body: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'id' && !/_at$/.test(name)))

/** The outbox entries for documents of a workspace, by the field that identifies them. */
async function outboxEntriesOf({ workspaceId }: TestWorkspace): Promise<unknown[]> {
  const lines = await asSuperuser<{ told: unknown }>(
    `select json_build_array(verb, version, document, bytes, anon_reads) as told from groups_test.told
      where workspace_id = $1 order by document ->> 'key', version, verb`,
    [workspaceId],
  )
  return lines.map(({ told }) => told)
}

test.each(['undeclared', 'declared'])(
  'group commit, %s collection: concurrent requests: same results as alone, in fewer transactions',
  async (name) => {
    const [together, alone] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    for (const { workspaceId, operator: as } of name === 'declared' ? [together, alone] : []) {
      const body = { workspace_id: workspaceId, collection: name, store: 'relational', schema: SCHEMA }
      expect((await call('POST', '/v1/schemas', { as, body })).status).toBe(201)
    }
    // The relay deletes delivered rows, so a copy is kept.
    await asSuperuser('create schema if not exists groups_test')
    await asSuperuser('create table if not exists groups_test.told (like tenon.outbox)')
    await asSuperuser(`create or replace function groups_test.keep() returns trigger language plpgsql security definer as
    $$ begin insert into groups_test.told select new.*; return null; end $$`)
    await asSuperuser(
      'create or replace trigger keep after insert on tenon.outbox for each row execute function groups_test.keep()',
    )
    const record = fc.record(VALUES, { requiredKeys: [] })
    const contents = fc
      .sample(record, { numRuns: 40, seed: 50 })
      .map((content, key) => ({ ...content, key: `${key}` }))
    const changes = fc.sample(record, { numRuns: 80, seed: 51 })
    const path = `${name}/documents`
    const make = (workspace: TestWorkspace, n: number) => ask('POST', workspace.service, path, contents[n])
    const change = (workspace: TestWorkspace, ids: string[], n: number) => {
      const id = n % 10 === 9 ? randomUUID() : (ids[n % ids.length] ?? '')
      // The same document twice, with a version that is outdated or never existed.
      const headers = n % 4 === 3 ? { 'if-match': `"${n % 8 === 3 ? 1 : 99}"` } : {}
      return ask(
        'PUT',
        workspace.service,
        `${path}/${id}`,
        { one: changes[n]?.['n'] ?? n, ...changes[n] },
        headers,
      )
    }
    for (const workspace of [together, alone]) await ask('GET', workspace.service, path)
    const before = node.seen.trips
    const made = await many((n) => make(together, n), contents.length)
    expect(node.seen.trips - before).toBeLessThan(contents.length)
    const individualReplies: Answer[] = []
    for (let n = 0; n < contents.length; n++) individualReplies.push(await make(alone, n))
    expect(made.filter(({ status }) => status !== 201)).toEqual([])
    expect(made.map(({ body }) => fieldsOf(body))).toEqual(
      individualReplies.map(({ body }) => fieldsOf(body)),
    )
    const [ids, idsAlone] = [made, individualReplies].map((all) =>
      all.map(({ body }) => String(body.id)),
    ) as [string[], string[]]
    const put = await many((n) => change(together, ids, n), contents.length)
    for (let n = 0; n < contents.length; n++) {
      const { status, body } = await change(alone, idsAlone, n)
      expect([n, put[n]?.status, fieldsOf(put[n]?.body)]).toEqual([
        n,
        status,
        { ...fieldsOf(body), ...problemMembers(put[n]) },
      ])
    }
    expect(new Set(put.map(({ status }) => status))).toEqual(new Set([200, 404, 412]))
    expect(await outboxEntriesOf(together)).toEqual(await outboxEntriesOf(alone))
  },
)

/** The members of a problem that identify this one request. */
const problemMembers = (answer: Answer | undefined) => {
  const { instance, request_id } = answer?.body ?? {}
  return { ...(instance && { instance }), ...(request_id && { request_id }) }
}

const FIELDS = { fields: { n: 1 }, text: '{"n":1}' }

test('group commit: many documents in the collection: coalesced reads use the index', async () => {
  const workspace = await createTestWorkspace()
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
      select $1, $2, 'plenty', gen_random_uuid(), '{}' from generate_series(1, 20000)`,
    [workspace.tenantId, workspace.workspaceId],
  )
  await asSuperuser('analyze tenon.documents')
  const collection: Collection = {
    ...{ name: 'plenty', store: postgresStore, permissions: ALL_RIGHTS },
    readers: { anon: true, user: false },
  }
  const update = { verb: 'update' as const, collection, unset: [], warnings: [], content: FIELDS }
  const changes = Array.from({ length: 3 }, () =>
    changeStatement({ collection, oneOfMany: false }, { ...update, id: randomUUID() }),
  )
  const { statements } = coalesce(changes)
  expect(statements).toHaveLength(1)
  const platform = openInProcessPlatform()
  const scope = scopeOf(platform, workspace, 'service')
  const [statement = sql`select`] = statements
  const [[row] = []] = await scope.batch(sql`explain (format json) ${statement}`)
  await platform.close()
  const plan = JSON.stringify(row?.['QUERY PLAN'])
  expect(plan).not.toContain('Seq Scan')
  expect(plan).toMatch(/"Index Cond":"[^"]*\bid = items_1\.item_id/)
})

test('group commit: one request violates a unique index: only that one is refused, the others are stored once', async () => {
  const [workspace] = workspaces
  const schema = { type: 'object', properties: { mail: { type: 'string' } } }
  const body = {
    workspace_id: workspace.workspaceId,
    collection: 'people',
    store: 'relational',
    schema,
    unique: [['mail']],
  }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const lines = await countOf(workspace, 'outbox')
  const answers = await many((n) =>
    ask('POST', workspace.service, 'people/documents', { mail: `${n % 50}@x` }),
  )
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status === 201)).toHaveLength(50)
  expect(statuses.filter((status) => status === 409)).toHaveLength(AT_ONCE - 50)
  const { body: list } = await ask('GET', workspace.service, 'people/documents?page[size]=200')
  expect(new Set(list.data.map(({ mail }: { mail: string }) => mail)).size).toBe(50)
  expect(list.data).toHaveLength(50)
  // Delivered rows are deleted, so there may be fewer; rows created twice would be more.
  expect(await countOf(workspace, 'outbox')).toBeLessThanOrEqual(lines + 50)
})

test('group commit: rows of all writes exceed the limit of one: each gets its rows, and is stored once', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId, workspaceId } = workspace
  const platform = openInProcessPlatform()
  const bytes = 2_000_000
  const count = Math.ceil(INFRA_LIMITS.rowsBytesMax / bytes) + 3
  try {
    const scope = scopeOf(platform, workspace, 'service')
    const answers = await many(
      () =>
        scope.batchShared(
          'writing',
          sql`insert into documents (tenant_id, workspace_id, collection, id, data)
            values (${tenantId}, ${workspaceId}, 'wide', gen_random_uuid(), '{}') returning repeat('x', ${bytes}) as wide`,
        ),
      count,
    )
    for (const [[row] = []] of answers) expect(String(row?.['wide'])).toHaveLength(bytes)
  } finally {
    await platform.close()
  }
  expect(await countOf(workspace, 'documents')).toBe(count)
})

test('group commit: quota nearly reached: exactly as many as fit are stored', async () => {
  const workspace = await createTestWorkspace()
  const limits = { workspace_id: workspace.workspaceId, limits: { documents: 20 } }
  expect((await call('PUT', '/v1/quotas', { as: workspace.operator, body: limits })).status).toBe(200)
  const answers = await many((n) => ask('POST', workspace.service, 'few/documents', { n }))
  const codes = answers.map(({ status, body }) => (status === 201 ? 201 : body.code))
  expect(codes.filter((code) => code === 201)).toHaveLength(20)
  expect(codes.filter((code) => code === 'quota_exceeded')).toHaveLength(AT_ONCE - 20)
  expect(await countOf(workspace, 'documents')).toBe(20)
})

test('group commit: one request waits for a lock: the others continue, it finishes once the lock is free', async () => {
  const workspace = await createTestWorkspace()
  const { body: held } = await ask('POST', workspace.service, 'held/documents', { n: 0 })
  const holder = new Client({ connectionString: inject('tenon').databaseUrl })
  await holder.connect()
  try {
    await holder.query('begin')
    await holder.query('select from tenon.documents where id = $1 for update', [held.id])
    const waiting = many((n) => ask('PUT', workspace.service, `held/documents/${held.id}`, { n: n + 1 }), 3)
    const elapsedMs = stopwatch()
    const others = await many((n) => ask('POST', workspace.service, 'held/documents', { n }))
    expect(elapsedMs()).toBeLessThan(3_000)
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set([201]))
    await holder.query('commit')
    const answers = await waiting
    expect(answers.map(({ status, body }) => [status, body._version]).sort()).toEqual([
      [200, 2],
      [200, 3],
      [200, 4],
    ])
  } finally {
    await holder.end()
  }
})
