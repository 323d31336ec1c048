/** Hostile queries and queries from flows: clear errors, bounded work. */

import { beforeAll, expect, test } from 'vitest'
import {
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const at = (collection: string) => `/v1/collections/${collection}/documents`
const query = (body: unknown, collection = 'things'): Promise<Reply> =>
  call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })

test('query: document or filter of 2 MB: 413', async () => {
  const text = 'x'.repeat(2_000_000)
  expect((await call('POST', at('things'), { as: workspace.service, body: { text } })).status).toBe(413)
  expect((await query({ filter: { text } })).status).toBe(413)
  const ops = [{ op: 'create', data: { text: text.repeat(3) } }]
  const batch = await call('POST', '/v1/collections/things/batch', { as: workspace.service, body: { ops } })
  expect([batch.status, batch.body.detail]).toEqual([413, expect.stringContaining('at most 4194304 bytes')])
})

test.each([
  ['10,000 arrays', `{"filter":{"a":{"eq":${'['.repeat(10_000)}${']'.repeat(10_000)}}}}`, 'filter_invalid'],
  ['10,000 times $or', `{"filter":${'{"$or":['.repeat(10_000)}{}${']}'.repeat(10_000)}}`, 'filter_invalid'],
  ['__proto__ as a field', '{"filter":{"__proto__":{"a":1}}}', 'body_invalid'],
  ['operator toString', '{"filter":{"a":{"toString":1}}}', 'filter_operator_unknown'],
  ['quoted operator __proto__', '{"filter":{"\\"__proto__\\"":1}}', 'filter_invalid'],
  ['null', 'null', 'body_invalid'],
  ['NUL', '{"filter":{"a":"\\u0000"}}', 'filter_invalid'],
  ['lone surrogate', '{"filter":{"a":"\\ud800"}}', 'filter_invalid'],
  ['NUL in a value', '{"filter":{"a":{"eq":[{"\\u0000":1}]}}}', 'filter_invalid'],
  ['filter is a list', '{"filter":[]}', 'validation_failed'],
  ['sort is a text', '{"sort":"a"}', 'validation_failed'],
  ['invalid sort direction', '{"sort":{"a":{}}}', 'validation_failed'],
  ['invalid sort direction, field name with a line break', '{"sort":{"a\\nb":{}}}', 'validation_failed'],
  ['parameter of the URL in the body', '{"name":"other"}', 'validation_failed'],
])('query: %s: 400', async (_name, body, code) => {
  const reply = await query(body)
  expect([reply.status, reply.body.code]).toEqual([400, code])
})

test('query: more shapes than a connection caches statements for: every result is correct', async () => {
  for (const a of [1, 9]) await call('POST', at('shapes'), { as: workspace.service, body: { a } })
  const shape = (n: number) =>
    Array.from({ length: 9 }, (_, bit) => `a=${(n >> bit) & 1 ? 'gt' : 'gte'}.${bit % 5}`).join('&')
  // Sequentially, so that all use the same connection.
  for (const n of Array.from({ length: 500 }, (_, turn) => turn % 260)) {
    const { status, body } = await call('GET', `${at('shapes')}?${shape(n)}`, { as: workspace.service })
    expect([status, body.data?.map(({ a }: { a: number }) => a)]).toEqual([200, [9]])
  }
})

test('query: scan exceeds the time limit: 503 that names the fields to index to those who may declare it', async () => {
  const own = await createTestWorkspace()
  await openCollectionsToAnon(own)
  const body = { a: 'a'.repeat(250_000) }
  await Promise.all(Array.from({ length: 240 }, () => call('POST', at('long'), { as: own.service, body })))
  const like = Array.from({ length: 50 }, (_, n) => `a=not.ilike.%25a%25a%25${n}`).join('&')
  const ask = (as: Caller) => call('GET', `${at('long')}?${like}&order=b.desc,c.d,_version`, { as })
  const slow = await Promise.all([ask(own.anon), ask(own.service)])
  const answers = slow.map(({ status, body }) => [status, body.code, body.hint])
  const index = 'Or declare the collection with an index on a, b (POST /v1/schemas).'
  expect(answers).toEqual([
    [503, 'query_timeout', 'Restrict the query.'],
    [503, 'query_timeout', `Restrict the query. ${index}`],
  ])
  expect((await call('GET', `${at('long')}?page[size]=1&select=id`, { as: own.anon })).status).toBe(200)
})

test('query from a flow: filters and pages: same results as over REST', async () => {
  for (const n of [1, 2, 3])
    await call('POST', at('jobs'), { as: workspace.service, body: { n, open: n > 1 } })
  const source = `
document: { dsl: '1.0.3', namespace: test, name: asks, version: '1.0.0' }
do:
  - first:
      call: collection.query
      with: { name: jobs, filter: { open: true }, sort: { n: -1 }, limit: 1, select: [n] }
      output: { as: '{ seen: .data, next: .page.next }' }
  - second:
      call: collection.query
      with: { name: jobs, filter: { open: true }, sort: { n: -1 }, limit: 1, after: '\${ .next }' }
      export: { as: '{ second: .data }' }
  - third:
      call: collection.list
      with: { name: jobs, filters: [[open, eq.true], [n, lt.3]], order: n.desc }
      output: { as: '{ second: $context.second[0].n, third: .data[0].n }' }
`
  const as = workspace.operator
  const made = await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
  expect(made.body.diagnostics).toEqual([])
  const path = `${workspace.flows}/definitions/${made.body.id}`
  expect((await call('POST', `${path}/versions`, { as, body: {} })).status).toBe(201)
  const headers = { prefer: 'wait=20' }
  const run = await call('POST', `${path}/executions`, { as, body: { input: {} }, headers })
  expect(run.body).toMatchObject({ status: 'completed', output: { second: 2, third: 2 } })
})
