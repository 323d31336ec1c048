/** Documents that are expensive to validate: other requests of the process are served meanwhile. */

import { beforeAll, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

const SLOW = '^(a|b|ab)*$'
/** An invalid text whose validation takes almost all of the steps that the main thread may spend on a document. */
const costly = `${'ab'.repeat(120)}!`
const MANY = 500

let workspace: TestWorkspace
let neighbour: TestWorkspace
beforeAll(async () => {
  ;[workspace, neighbour] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})

async function declare(more: object = {}): Promise<{ id: string; at: string }> {
  const collection = unique('c')
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store: 'relational', mode: 'warn' },
    ...{ schema: { properties: { a: { type: 'string', pattern: SLOW } } }, ...more },
  }
  const made = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(made.status).toBe(201)
  return { id: made.body.id, at: `/v1/collections/${collection}` }
}

/** Expects that a neighbour never waits for the whole work: a blocked one would. */
async function expectServedDuring(status: number, work: () => Promise<Reply>): Promise<void> {
  const since = performance.now()
  let reply: Reply | undefined
  const done = work().then((it) => {
    reply = it
  })
  let waited = 0
  while (reply === undefined) {
    const startedMs = performance.now()
    expect((await call('GET', '/v1/collections/x/documents', { as: neighbour.service })).status).toBe(200)
    waited = Math.max(waited, performance.now() - startedMs)
  }
  await done
  const took = performance.now() - since
  expect([reply.status, reply.body]).toEqual([status, expect.anything()])
  expect(waited).toBeLessThan(took * 0.75)
}

/** One success is enough: on a busy machine other processes delay the neighbour too. */
const RETRIED = { retry: 3 }

const body = () => ({ ops: Array.from({ length: MANY }, () => ({ op: 'create', data: { a: costly } })) })
const LINES = { 'content-type': 'application/x-ndjson' }
const lines = () => `${JSON.stringify({ a: costly })}\n`.repeat(MANY)

test('batch: costly documents: other requests are served in between', RETRIED, async () => {
  const { at } = await declare()
  await expectServedDuring(200, () => call('POST', `${at}/batch`, { as: workspace.service, body: body() }))
})

test('import: costly lines: other requests are served in between', RETRIED, async () => {
  const { at } = await declare()
  const work = () => call('POST', `${at}/import`, { as: workspace.service, body: lines(), headers: LINES })
  await expectServedDuring(200, work)
})

test(
  'schema change: existing costly documents are validated: other requests are served in between',
  RETRIED,
  async () => {
    const { at, id } = await declare({ schema: {}, mode: 'off' })
    expect((await call('POST', `${at}/batch`, { as: workspace.service, body: body() })).status).toBe(200)
    // All documents fit: validation stops after the number of misfits that is reported.
    const change = { mode: 'enforce', schema: { properties: { a: { not: { pattern: SLOW } } } } }
    await expectServedDuring(200, () =>
      call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body: change }),
    )
  },
)
