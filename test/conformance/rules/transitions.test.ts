/**
 * Update rules with `$old`, by every route and operation of both stores and by the trigger of PostgreSQL alone: what is changed is
 * what a naive model admits, whatever the caller may read.
 */

import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { publishMcpServer } from '../../support/clients/mcp.ts'
import { exported, importInto, lines } from '../../support/clients/ndjson.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  operator,
  type TestWorkspace,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'
import { repeated } from '../../support/stack/soak.ts'
import type { Running } from '../../support/stack/start.ts'
import { FlowRunner } from '../flows/flow-runner.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Transitions over MongoDB are not tested: ${missing}.`)

let workspace: TestWorkspace
let mongo: Awaited<ReturnType<typeof startMongoApi>> | undefined
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const config = { user: true, anon: true }
  const body = { workspace_id: workspace.workspaceId, name: 'updating', source: UPDATING, config }
  expect((await call('POST', '/v1/functions', { as: workspace.operator, body })).status).toBe(201)
  if (missing === undefined) mongo = await startMongoApi()
})
afterAll(() => mongo?.stop())

const SCHEMA = {
  type: 'object',
  additionalProperties: false,
  properties: {
    key: { type: 'string' },
    amount: { type: 'integer' },
    status: { type: 'string' },
    due: { type: 'string', format: 'date-time' },
  },
}

interface State {
  readonly amount?: number
  readonly status: string
  readonly due?: string
}
/** A rule, what it asks of the document as it is, and what of a change. */
interface Form {
  readonly update: object
  readonly before?: (old: State) => boolean
  readonly admits: (old: State, next: State) => boolean
}

const isSame = (old: unknown, next: unknown) => old === next
const differs = (old: unknown, next: unknown) => next !== undefined && old !== next
const CLOSED = { status: 'closed' }

const FORMS: readonly Form[] = [
  { update: { amount: '$old.amount' }, admits: (o, n) => isSame(o.amount, n.amount) },
  { update: { $not: { amount: '$old.amount' } }, admits: (o, n) => differs(o.amount, n.amount) },
  { update: { amount: { neq: '$old.amount' } }, admits: (o, n) => differs(o.amount, n.amount) },
  { update: { $not: { amount: { neq: '$old.amount' } } }, admits: (o, n) => isSame(o.amount, n.amount) },
  { update: { $not: { $not: { amount: '$old.amount' } } }, admits: (o, n) => isSame(o.amount, n.amount) },
  {
    update: { amount: { gte: '$old.amount' } },
    admits: (o, n) => o.amount !== undefined && n.amount !== undefined && n.amount >= o.amount,
  },
  {
    update: { amount: { in: ['$old.amount', 6] } },
    admits: (o, n) => o.amount !== undefined && n.amount !== undefined && [o.amount, 6].includes(n.amount),
  },
  {
    update: { amount: '$old.amount', $or: [{ status: '$old.status' }, CLOSED] },
    admits: (o, n) => isSame(o.amount, n.amount) && (isSame(o.status, n.status) || n.status === 'closed'),
  },
  {
    update: { status: 'open', amount: '$old.amount' },
    before: (o) => o.status === 'open',
    admits: (o, n) => n.status === 'open' && isSame(o.amount, n.amount),
  },
  {
    update: { due: '$old.due' },
    admits: (o, n) => Date.parse(o.due ?? '1') === Date.parse(n.due ?? '1'),
  },
]

const OLD: readonly State[] = [{ amount: 5, status: 'open', due: '2026-01-01T00:00:00Z' }, { status: 'sold' }]
const NEXT: readonly State[] = [
  { amount: 5, status: 'open', due: '2026-01-01T01:00:00+01:00' },
  { amount: 6, status: 'open' },
  { amount: 4, status: 'open', due: '2026-01-01T00:00:00Z' },
  { status: 'sold' },
  { amount: 5, status: 'closed', due: '2026-01-02T00:00:00Z' },
  { status: 'closed' },
]
const PAIRS = OLD.flatMap((old) => NEXT.map((next) => ({ old, next })))

/** Read rules that admit every document: at once, by the caller alone, by the document. */
const READS = {
  user: [true, { '$user.claims.team': 'blue' }, { status: { in: ['open', 'sold', 'closed'] } }],
  anon: [true, { key: { neq: 'none' } }],
} as const

/** One change of one document, each by another way. */
interface Change {
  readonly key: string
  readonly old: State
  readonly next: State
  readonly way: string
}
const keepsFields = ({ old, next }: Pick<Change, 'old' | 'next'>) =>
  Object.keys(old).every((name) => Object.hasOwn(next, name))

/** Operators that make `next` of `old`. */
function operatorsOf({ key, old, next }: Change): object {
  const { amount, ...others } = next
  const unset = Object.keys(old).filter((name) => !Object.hasOwn(next, name))
  const inc = amount === undefined ? {} : { inc: { amount: amount - (old.amount ?? 0) } }
  return { set: { key, ...others }, unset, ...inc }
}

/** Operations of batches; each makes `next` of a document that is `old`. */
const OPS: Readonly<Record<string, (change: Change, id: string) => object | undefined>> = {
  update: ({ key, old, next }, id) => {
    const unset = Object.keys(old).filter((name) => !Object.hasOwn(next, name))
    return { op: 'update', id, data: { key, ...next }, unset }
  },
  operators: (change, id) => ({ op: 'update', id, ...operatorsOf(change) }),
  patch: ({ next }, id) => ({ op: 'patch', id, data: { amount: null, due: null, ...next } }),
  replace: ({ key, next }, id) => ({ op: 'replace', id, data: { key, ...next } }),
  upsert: ({ key, old, next }) => {
    return keepsFields({ old, next }) ? { op: 'upsert', on: ['key'], data: { key, ...next } } : undefined
  },
  increment: ({ old, next }, id) => {
    const { amount = 0, ...rest } = old
    const { amount: to, ...others } = next
    if (to === undefined || JSON.stringify(rest) !== JSON.stringify(others)) return undefined
    return { op: 'increment', id, field: 'amount', by: to - amount }
  },
}

interface Place {
  readonly at: Running
  readonly collection: string
  readonly as: Caller
  readonly ids: ReadonlyMap<string, string>
}
/** @returns the status of each change */
type Route = (place: Place, changes: readonly Change[], op: string) => Promise<number[]>

const opsOf = ({ ids }: Place, changes: readonly Change[], op: string) =>
  changes.map((change) => OPS[op]?.(change, ids.get(change.key) ?? '') ?? {})

const single =
  (method: string, body: (change: Change) => object, headers: Record<string, string> = {}): Route =>
  ({ at, collection, as, ids }, changes) =>
    Promise.all(
      changes.map(async (change) => {
        const path = `/v1/collections/${collection}/documents/${ids.get(change.key)}`
        return (await call(method, path, { as, at, body: body(change), headers })).status
      }),
    )

/** By the values of the unique field. */
const upsert: Route = ({ at, collection, as }, changes) =>
  Promise.all(
    changes.map(async ({ key, next }) => {
      const path = `/v1/collections/${collection}/documents?upsert=key`
      return (await call('POST', path, { as, at, body: { key, ...next } })).status
    }),
  )

const batch =
  (anywhere: boolean, atomic: boolean): Route =>
  async (place, changes, op) => {
    const { at, collection, as } = place
    const path = anywhere ? '/v1/batch' : `/v1/collections/${collection}/batch`
    const ops = opsOf(place, changes, op).map((one) => ({ ...one, ...(anywhere && { collection }) }))
    const send = (some: object[]) => call('POST', path, { as, at, body: { atomic, ops: some } })
    if (atomic) return Promise.all(ops.map(async (one) => (await send([one])).status))
    const { status, body } = await send(ops)
    expect(status, `${op} ${JSON.stringify(body)}`).toBe(200)
    return body.results.map((result: { status: number }) => result.status)
  }

/** A function that users and anon keys may call acts as its caller. */
const UPDATING = `export default async ({ collection, changes }: any, { tenon }: any) => {
  const statuses: number[] = []
  for (const { id, document } of changes)
    statuses.push(await tenon.collections.update(collection, id, document).then(() => 200, (error: any) => error.status))
  return statuses
}`
const byFunction: Route = async ({ at, collection, as, ids }, changes) => {
  const sent = changes.map(({ key, next }) => ({ id: ids.get(key), document: { key, ...next } }))
  const body = { collection, changes: sent }
  const reply = await call('POST', '/v1/functions/updating/invoke', { as, at, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(200)
  return reply.body
}

const ROUTES: Readonly<Record<string, Route>> = {
  put: single('PUT', ({ key, next }) => ({ key, ...next })),
  patch: single('PATCH', ({ next }) => ({ amount: null, due: null, ...next })),
  operators: single('PATCH', operatorsOf, { 'content-type': 'application/vnd.tenon.ops+json' }),
  upsert,
  batch: batch(false, false),
  'atomic batch': batch(false, true),
  'batch of all': batch(true, false),
  'atomic batch of all': batch(true, true),
  function: byFunction,
}

/** They set fields, and unset none. */
const SETTING = ['put', 'upsert', 'function']

/** Each change of a pair by each way that can make it; of the ways that share code with the first batch, every fourth pair. */
function changesOf(store: string): Change[] {
  const ways = Object.keys(ROUTES).flatMap((route) =>
    route.includes('batch') ? Object.keys(OPS).map((op) => `${route}/${op}`) : [route],
  )
  return ways.flatMap((way, w) =>
    PAIRS.flatMap(({ old, next }, p) => {
      // Each way meets a third of the pairs, another one for each way; the soak has all.
      if ((w + p) % (store === 'document' ? 3 : repeated(3, 1)) > 0) return []
      const change = { key: `${w}-${p}`, old, next, way }
      if (SETTING.includes(way) && !keepsFields(change)) return []
      // The API over MongoDB has no worker for functions.
      if (way === 'function' && store === 'document') return []
      const [route = '', op = ''] = way.split('/')
      if (route.includes(' ') && (w + p) % 4 > 0) return []
      // Unique fields are of PostgreSQL alone.
      if ((route === 'upsert' || op === 'upsert') && store === 'document') return []
      return op === '' || OPS[op]?.(change, '') !== undefined ? [change] : []
    }),
  )
}

const roles = ['user', 'anon'] as const
/** Both roles in turn; each form meets another read rule. */
const CASES = FORMS.map((form, f) => ({ form, role: roles[f % 2] ?? 'user', f }))

const callerOf = (role: 'user' | 'anon', at: Running): Caller | Promise<Caller> =>
  role === 'anon' ? workspace.anon : userToken(workspace, 'mia', { team: 'blue' }, at)

/** Declares a collection under the rule, with one document for each change. */
async function filled(
  { form, role, f }: (typeof CASES)[number],
  { at, store, changes }: { at: Running; store: string; changes: readonly Change[] },
): Promise<Place & { readonly schemaId: string }> {
  const collection = `transitions_${store}_${role}_${f}_${FORMS.indexOf(form)}`
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store, schema: SCHEMA },
    ...(store === 'relational' && { unique: [['key']] }),
    access: {
      [role]: {
        read: READS[role][Math.floor(f / 2) % READS[role].length],
        create: true,
        update: form.update,
      },
    },
  }
  const declared = await call('POST', '/v1/schemas', { as: await operator(at), body, at })
  expect(declared.status, JSON.stringify(declared.body)).toBe(201)
  const rows = lines(...changes.map(({ key, old }) => ({ key, ...old })))
  const made = await importInto(collection, rows, { as: workspace.service, at })
  expect(made.body.created, JSON.stringify(made.body)).toBe(changes.length)
  const ids = new Map((await documentsIn(collection, at)).map(({ key, id }) => [key, id]))
  return { at, collection, as: await callerOf(role, at), ids, schemaId: declared.body.id }
}

type Row = State & { readonly id: string; readonly key: string }
const documentsIn = (collection: string, at: Running): Promise<Row[]> =>
  exported(collection, { as: workspace.service, at })

const isAdmitted = ({ before = () => true, admits }: Form, { old, next }: Pick<Change, 'old' | 'next'>) =>
  before(old) && admits(old, next)

async function expectTransitions(store: 'relational' | 'document', at: Running, cases: typeof CASES) {
  const changes = changesOf(store)
  for (const one of cases) {
    const place = await filled(one, { at, store, changes })
    const answers = new Map<string, number>()
    for (const way of new Set(changes.map((change) => change.way))) {
      const some = changes.filter((change) => change.way === way)
      const [route = '', op = ''] = way.split('/')
      const statuses = (await ROUTES[route]?.(place, some, op)) ?? []
      some.forEach(({ key }, index) => {
        answers.set(key, statuses[index] ?? 0)
      })
    }
    const found = new Map((await documentsIn(place.collection, at)).map((row) => [row.key, row]))
    const stateOf = (state: State) => [state.amount ?? null, state.status, Date.parse(state.due ?? '1')]
    const lines = changes.map((change) => {
      const { key, way, old, next } = change
      return [way, old, next, answers.get(key), stateOf(found.get(key) ?? { status: 'missing' })]
    })
    const wanted = changes.map((change) => {
      const { way, old, next } = change
      const admitted = isAdmitted(one.form, change)
      return [way, old, next, admitted ? 200 : 403, stateOf(admitted ? next : old)]
    })
    expect(lines, `${store} ${one.role} ${JSON.stringify(one.form.update)}`).toEqual(wanted)
    if (store === 'relational') await expectTrigger(place.schemaId, one)
  }
}

let client: Client | undefined
afterAll(() => client?.end())

/** A statement that has forgotten the rule changes the documents that the rule admits. */
async function expectTrigger(schemaId: string, { form, role }: (typeof CASES)[number]): Promise<void> {
  if (client === undefined) {
    client = new Client({ connectionString: inject('tenon').env['DATABASE_APP_URL'] })
    await client.connect()
  }
  const { rows } = await asRole('service', 'select relation, columns from tenon.schemas where id = $1', [
    schemaId,
  ])
  const column = (name: string): string =>
    rows[0].columns.find(
      ({ property, canonical }: { property: string; canonical?: object }) =>
        property === name && canonical === undefined,
    ).column
  const [amount, status, due] = [column('amount'), column('status'), column('due')]
  const of = `${amount} is not distinct from $1::bigint and ${status} = $2 and ${due} is not distinct from $3::text`
  for (const [index, { old, next }] of PAIRS.entries()) {
    const set = `${amount} = $4::bigint, ${status} = $5, ${due} = $6`
    const text = `update tenon_data.${rows[0].relation} set ${set} where ${of}`
    const values = [old, next].flatMap((state) => [state.amount, state.status, state.due])
    const { rowCount } = await asRole(role, text, values)
    expect((rowCount ?? 0) > 0, `${role} ${JSON.stringify(form.update)} ${index}`).toBe(
      isAdmitted(form, { old, next }),
    )
  }
}

/** Runs a statement as a role of the database, and rolls it back. */
async function asRole(role: string, text: string, values: unknown[]) {
  if (client === undefined) throw new TypeError('there is a client')
  const { tenantId, workspaceId } = workspace
  await client.query('begin')
  try {
    const user = role === 'user' ? JSON.stringify({ id: 'mia', claims: { team: 'blue' } }) : ''
    await client.query(
      `select set_config('role', $1, true), set_config('tenon.tenant', $2, true),
        set_config('tenon.workspace', $3, true), set_config('tenon.user', $4, true)`,
      [`tenon_${role}`, tenantId, workspaceId, user],
    )
    return await client.query(text, values)
  } catch (error) {
    if (/permission denied|row-level security|does not admit/.test(String(error)))
      return { rows: [], rowCount: 0 }
    throw error
  } finally {
    await client.query('rollback')
  }
}

test('update rules with $old: each route, operation, role and read rule of PostgreSQL: only admitted changes are made', async () => {
  await expectTransitions('relational', inject('tenon'), CASES)
})

test('update rules with $old: tasks of flows and tools of MCP servers act as services: no rule binds them', async () => {
  const at = inject('tenon')
  const [form] = FORMS
  if (form === undefined) throw new TypeError('there is a form')
  const pairs = PAIRS.filter((pair) => keepsFields(pair) && !isAdmitted(form, pair))
  const changes = ['flow', 'tool'].flatMap((way) =>
    pairs.map(({ old, next }, p) => ({ key: `${way}-${p}`, old, next, way })),
  )
  const { collection, ids } = await filled(
    { form, role: 'user', f: 99 },
    { at, store: 'relational', changes },
  )
  const of = (wanted: string) =>
    changes
      .filter(({ way }) => way === wanted)
      .map(({ key, next }) => ({ id: ids.get(key) ?? '', document: { key, ...next } }))
  const runner = new FlowRunner(workspace, at)
  await runner.publish('updates', flowOf(collection))
  const { id } = await runner.start('updates', { changes: of('flow') })
  expect(await runner.ended(id)).toMatchObject({ status: 'completed' })
  const enabled = { [`collections:${collection}:update`]: { enabled: true } }
  const { base } = await publishMcpServer(workspace, 'updates', enabled)
  for (const { id, document } of of('tool')) {
    const body = { tool: `${collection}_update`, arguments: { id, ...document } }
    const reply = await call('POST', `${base}/call`, { as: workspace.operator, body })
    expect([reply.status, reply.body.isError ?? false], JSON.stringify(reply.body)).toEqual([200, false])
  }
  const found = new Map((await documentsIn(collection, at)).map((row) => [row.key, row]))
  for (const { key, next } of changes) expect(found.get(key)).toMatchObject({ key, ...next })
})

const flowOf = (collection: string) => `
document: { dsl: '1.0.3', namespace: test, name: updates, version: '1.0.0' }
do:
  - each:
      for: { each: change, in: '\${ .changes }' }
      do:
        - update:
            call: collection.update
            with: { name: ${collection}, id: '\${ $change.id }', document: '\${ $change.document }' }
`

describe.skipIf(missing !== undefined)('over MongoDB', () => {
  test('update rules with $old: each route, operation, role and read rule: only admitted changes are made', async () => {
    const cases = [...CASES.slice(0, 2), ...CASES.slice(-1)]
    await expectTransitions('document', mongo?.running ?? inject('tenon'), cases)
  })
})
