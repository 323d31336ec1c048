/** Checks with a real PgBouncer that the platform works through it, notices what it cannot do, and loses nothing when it is restarted. */

import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { WorkspaceRef } from '../../../src/core/tenant.ts'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { Builder } from '../../../src/infra/postgres/index-builder.ts'
import { probePooling } from '../../../src/infra/postgres/pooling.ts'
import { Sql, sql } from '../../../src/infra/postgres/sql.ts'
import { send } from '../../support/clients/idempotency.ts'
import { createTable } from '../../support/clients/sql-as-role.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { asSuperuser, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { migrateHere } from '../../support/stack/own-database.ts'
import { refusalOf, runCheckNamed } from '../../support/stack/start-outcome.ts'
import { startWorker } from '../../support/stack/worker-process.ts'
import { type PgBouncer, startPgBouncer } from './pgbouncer.ts'

const DOCUMENTS = '/v1/collections/orders/documents'

let ofSessions: PgBouncer
let ofTransactions: PgBouncer
let app: string
let builder: string
let owner: string
beforeAll(async () => {
  const { env, databaseUrl, masterKey } = inject('tenon')
  ;[app, owner] = [env['DATABASE_APP_URL'] ?? '', databaseUrl]
  const url = new URL(app)
  url.username = 'tenon_builder'
  url.password = deriveSecret(masterKey, DERIVED.builderPassword)
  builder = url.href
  const urls = [app, builder, owner]
  ofSessions = await startPgBouncer('session', urls)
  ofTransactions = await startPgBouncer('transaction', urls)
})
afterAll(() => Promise.all([ofSessions?.stop(), ofTransactions?.stop()]))
afterEach(closeSubscriptions)

/** Settings of a process behind the pooler that lends connections for transactions. */
const pooled = () => ({
  DATABASE_APP_URL: ofTransactions.through(app),
  DATABASE_SESSION_URL: app,
  ...(!ofTransactions.keepsStatements && { DATABASE_PREPARED_STATEMENTS: 'false' }),
})

describe('what is between', () => {
  test('nothing, a pool of sessions, a pool of transactions: are told apart', async () => {
    const { keepsStatements } = ofTransactions
    expect(await probePooling(app)).toEqual({ lends: 'none', keepsStatements: true })
    expect(await probePooling(ofSessions.through(app))).toEqual({ lends: 'session', keepsStatements: true })
    const probes = await Promise.all(
      Array.from({ length: 4 }, () => probePooling(ofTransactions.through(app))),
    )
    expect(probes).toEqual(probes.map(() => ({ lends: 'transaction', keepsStatements })))
  })

  test('pool of transactions without a URL for sessions: API and worker do not start, and say what to set', async () => {
    const env = { ...pooled(), DATABASE_SESSION_URL: '' }
    for (const process of ['api', 'worker'] as const)
      expect(await refusalOf(process, env)).toMatch(
        /sessions: DATABASE_APP_URL leads through a pooler .* set DATABASE_SESSION_URL to PostgreSQL itself/,
      )
  })

  test.each(['DATABASE_SESSION_URL', 'DATABASE_BUILDER_URL'] as const)(
    'pool of transactions at %s: the worker does not start, and names the setting',
    async (setting) => {
      const url = ofTransactions.through(setting === 'DATABASE_BUILDER_URL' ? builder : app)
      expect(await refusalOf('worker', { ...pooled(), [setting]: url })).toContain(
        `${setting} leads through a pooler`,
      )
    },
  )

  test('statements that are prepared, with a pooler that does not keep them: no start; with all settings: a start', async () => {
    const refused = await refusalOf('api', { ...pooled(), DATABASE_PREPARED_STATEMENTS: 'true' })
    expect(refused).toEqual(
      ofTransactions.keepsStatements ? '' : expect.stringContaining('DATABASE_PREPARED_STATEMENTS=false'),
    )
    for (const process of ['api', 'worker'] as const) expect(await refusalOf(process, pooled())).toBe('')
    expect(await runCheckNamed('sessions', pooled())).toMatchObject({ is: 'good' })
  })

  test('migration through a pool of transactions: refused before anything is changed', async () => {
    await expect(migrateHere(ofTransactions.through(owner))).rejects.toThrow(
      'DATABASE_URL leads through a pooler that lends connections for single transactions',
    )
    expect((await migrateHere(ofSessions.through(owner))).applied).toEqual([])
  })
})

test('pool of sessions at DATABASE_BUILDER_URL: builds indexes, each session with its own settings', async () => {
  expect(await refusalOf('worker', { ...pooled(), DATABASE_BUILDER_URL: ofSessions.through(builder) })).toBe(
    '',
  )
  const pooledBuilder = new Builder(ofSessions.through(builder))
  // The second one gets the connection of the first.
  for (const workspace of [await createTestWorkspace(), await createTestWorkspace()]) {
    const { id } = await createTable(workspace)
    const statement = sql`create index concurrently ${Sql.identifier(`${id}_i9`)} on tenon_data.${Sql.identifier(id)} (c1)`
    expect(
      await pooledBuilder.build(
        workspace as unknown as WorkspaceRef,
        { schemaId: id, name: 'i9' },
        statement,
      ),
    ).toBe(true)
    expect(
      await asSuperuser(
        `select indisvalid, relowner::regrole::text as owner from pg_index join pg_class on oid = indexrelid where relname = $1`,
        [`${id}_i9`],
      ),
    ).toEqual([{ indisvalid: true, owner: 'tenon_tables' }])
  }
})

test('API and worker behind a pool of transactions: documents, events, flows and elections work', async () => {
  const first = inject('tenon')
  const workspace = await createTestWorkspace()
  const node = await startInProcessNode(pooled())
  const worker = await startWorker({ ...first, env: { ...first.env, ...pooled() } })
  try {
    const heard = await subscribeToEvents(workspace.service, 'topic=collections.orders.*', {}, node.at)
    const make = (n: number) => call('POST', DOCUMENTS, { as: workspace.service, at: node.at, body: { n } })
    const made = await Promise.all(Array.from({ length: 40 }, (_, n) => make(n)))
    expect(new Set(made.map(({ status }) => status))).toEqual(new Set([201]))
    await receivedAtLeast(heard, 40)
    const list = await call('GET', `${DOCUMENTS}?page[size]=200`, { as: workspace.service, at: node.at })
    expect(list.body.data).toHaveLength(40)
    const executions = new Executions(workspace, node.at)
    const id = await executions.start(await executions.publish('  - one: { set: { x: 1 } }\n'))
    expect((await executions.ended(id)).status).toBe('completed')
  } finally {
    worker.kill('SIGTERM')
    await once(worker, 'exit')
    await node.close()
  }
})

test('PgBouncer killed and restarted under load: each acknowledged document is there once, no other is', async () => {
  const workspace = await createTestWorkspace()
  const node = await startInProcessNode(pooled())
  const acknowledged: number[] = []
  const outages: number[] = []
  let isOver = false
  /** Repeats each request with its key until it is answered. */
  const write = async (lane: number) => {
    for (let n = lane; !isOver; n += 8) {
      for (;;) {
        const { status } = await send('POST', workspace.service, `doc-${n}`, { n }, DOCUMENTS, node.at)
        if (status === 201) break
        expect([409, 503]).toContain(status)
        outages.push(n)
        await pause(50)
      }
      acknowledged.push(n)
    }
  }
  try {
    const lanes = Array.from({ length: 8 }, (_, lane) => write(lane))
    for (const strike of [1, 2, 3]) {
      await eventually(async () => (acknowledged.length > strike * 60 ? true : undefined))
      await ofTransactions.restart()
    }
    const before = acknowledged.length
    await eventually(async () => (acknowledged.length > before + 60 ? true : undefined))
    isOver = true
    await Promise.all(lanes)
  } finally {
    isOver = true
    await node.close()
  }
  expect(outages.length).toBeGreaterThan(0)
  const stored: number[] = []
  for (let after: string | null = ''; after !== null; ) {
    const { body } = await call(
      'GET',
      `${DOCUMENTS}?page[size]=200${after && `&page[after]=${encodeURIComponent(after)}`}`,
      {
        as: workspace.service,
      },
    )
    stored.push(...body.data.map(({ n }: { n: number }) => n))
    after = body.page.next
  }
  expect(stored.toSorted((a, b) => a - b)).toEqual(acknowledged.toSorted((a, b) => a - b))
})
