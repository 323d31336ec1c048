/** The pool of a process is used up, or PostgreSQL takes no more connections: a clear refusal, and no wait without end. */

import { expect, inject, test } from 'vitest'
import { Database } from '../../src/infra/postgres/database.ts'
import { sql } from '../../src/infra/postgres/sql.ts'
import { failureKindOf } from '../../src/infra/unavailable.ts'
import {
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import { withDatabase } from '../support/stack/own-database.ts'

const DOCUMENTS = '/v1/collections/notes/documents'
const POOL = 4

test('pool used up: other requests get 503 with a time to retry after, health answers, and the waiting ones succeed', async () => {
  const [first, second, third] = await Promise.all([
    createTestWorkspace(),
    createTestWorkspace(),
    createTestWorkspace(),
  ])
  const node = await startInProcessNode({ DATABASE_POOL_MAX: String(POOL) })
  const holder = await connectSuperuser(inject('tenon'))
  const send = (method: string, path: string, of: TestWorkspace, body?: object) =>
    call(method, path, { ...{ as: of.service, at: node.at }, ...(body !== undefined && { body }) })
  try {
    const holders = [first, second, first, second]
    const ready = async () => (await fetch(`${node.at.url}/readyz`)).status
    expect(await ready()).toBe(200)
    const ids = await Promise.all(
      holders.map(async (of) => (await send('POST', DOCUMENTS, of, { n: 0 })).body.id as string),
    )
    await holder.query('begin')
    await holder.query('select from tenon.documents where id = any($1) for update', [ids])
    const held = holders.map((of, at) => send('PATCH', `${DOCUMENTS}/${ids[at]}`, of, { n: 1 }))
    await eventually(async () => {
      const { rows } = await holder.query(
        `select count(*)::integer as waiting from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`,
        [(holder as unknown as { processID: number }).processID],
      )
      return rows[0].waiting === POOL ? true : undefined
    })
    const refused = await send('GET', DOCUMENTS, third)
    expect([refused.status, refused.body.code]).toEqual([503, 'overloaded'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await ready()).toBe(200)
    await holder.query('commit')
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect((await send('GET', DOCUMENTS, third)).status).toBe(200)
  } finally {
    await holder.end()
    await node.close()
  }
})

test('PostgreSQL takes no more connections: the work fails at once and names the cause, and goes on when one is free', async () => {
  await withDatabase(async ({ env, client }) => {
    // That of the superuser counts, too.
    await client.query(
      `do $$ begin execute format('alter database %I connection limit 2', current_database()); end $$`,
    )
    const database = Database.open(env.DATABASE_APP_URL, () => {}, POOL)
    const context = { role: 'tenon_anon', tenant: '', workspace: '', statementTimeoutMs: 2_000 } as const
    const ask = () => database.batch(context, [sql`select 1`])
    const { promise: free, resolve: release } = Promise.withResolvers<void>()
    const { promise: isHeld, resolve: hold } = Promise.withResolvers<void>()
    const held = database.transaction('', async () => {
      hold()
      await free
    })
    try {
      await Promise.race([isHeld, held])
      const refused = await ask().catch((error: unknown) => error)
      expect(refused).toMatchObject({ code: 'dependency_unavailable', members: { part: 'postgres' } })
      expect(failureKindOf(refused)).toBe('busy')
      release()
      await held
      await expect(ask()).resolves.toHaveLength(1)
    } finally {
      release()
      await database.close()
    }
  })
})
