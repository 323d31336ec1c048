/** Schemas that are proposed from documents: all of these fit them, and nothing is declared. */

import { beforeAll, describe, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

type Fields = Readonly<Record<string, unknown>>

async function fill(collection: string, documents: readonly Fields[]): Promise<void> {
  const ndjson = documents.map((document) => JSON.stringify(document)).join('\n')
  const made = await call('POST', `/v1/collections/${collection}/import`, {
    as: ws.service,
    body: ndjson,
    headers: { 'content-type': 'application/x-ndjson' },
  })
  expect(made.body).toMatchObject({ failed: 0 })
}
const infer = (collection: string, of = ws) =>
  call('POST', '/v1/schemas/infer', {
    as: ws.operator,
    body: { workspace_id: of.workspaceId, collection },
  })
const declare = (collection: string, body: object) =>
  call('POST', '/v1/schemas', {
    as: ws.operator,
    body: { workspace_id: ws.workspaceId, collection, store: 'relational', ...body },
    headers: { prefer: 'wait=30' },
  })

const ID = '0193a1b0-7c5e-7000-8000-000000000001'

describe('values of a field, and the schema that is proposed for it', () => {
  test.each<[string, readonly unknown[], object]>([
    ['whole numbers', [1, -2, 0], { type: 'integer' }],
    ['numbers', [1, 2.5], { type: 'number' }],
    ['beyond the integers of JSON', [1e21], { type: 'number' }],
    ['texts', ['a', ''], { type: 'string' }],
    ['ids', [ID], { type: 'string', format: 'uuid' }],
    ['times', ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00+01:00'], { type: 'string', format: 'date-time' }],
    ['days', ['2026-01-31'], { type: 'string', format: 'date' }],
    ['addresses', ['a@example.com'], { type: 'string', format: 'email' }],
    ['one text without the format of the others', ['2026-01-31', 'soon'], { type: 'string' }],
    ['digits', ['0049'], { type: 'string' }],
    ['null among texts', ['2026-01-31', null], { type: ['null', 'string'], format: 'date' }],
    ['null alone', [null], { type: 'null' }],
    ['texts and numbers', ['a', 1], { type: ['integer', 'string'] }],
    ['lists', [['a'], []], { type: 'array', items: { type: 'string' } }],
    ['empty lists', [[]], { type: 'array' }],
    [
      'objects',
      [{ a: 1, b: true }, { a: 2 }],
      { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'boolean' } }, required: ['a'] },
    ],
    [
      'objects and lists of objects',
      [[{ a: 1 }, { a: null }], { b: 1 }],
      {
        type: ['array', 'object'],
        properties: { b: { type: 'integer' } },
        required: ['b'],
        items: { type: 'object', properties: { a: { type: ['integer', 'null'] } }, required: ['a'] },
      },
    ],
    [
      'objects by many names',
      [Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`user-${n}`, n]))],
      { type: 'object' },
    ],
  ])('%s', async (_what, values, expected) => {
    const collection = unique('c')
    await fill(
      collection,
      values.map((value) => ({ value })),
    )
    const { status, body } = await infer(collection)
    expect([status, body.sampled]).toEqual([200, values.length])
    expect(body.schema).toEqual({ type: 'object', properties: { value: expected }, required: ['value'] })
    expect((await declare(collection, { schema: body.schema })).status).toBe(201)
  })
})

test('documents of many shapes: the proposal is declared as it is, also for the names of objects and of prototypes', async () => {
  const collection = unique('c')
  const odd = { 'a b': 1, 'c.d': { toString: 1, 'e/f~g': [[1], ['x']] }, hasOwnProperty: null }
  await fill(collection, [odd, { n: 1 }, { n: 2, deep: { a: { b: { c: { d: { e: 1 } } } } } }])
  const { body } = await infer(collection)
  expect(body.schema.required).toBeUndefined()
  expect(Object.keys(body.schema.properties).sort()).toEqual(['a b', 'c.d', 'deep', 'hasOwnProperty', 'n'])
  expect((await declare(collection, { schema: body.schema })).status).toBe(201)
})

test('many documents: the first and the last are read, and no values are shown', async () => {
  const collection = unique('c')
  const text = 'secret'.repeat(100)
  await fill(
    collection,
    Array.from({ length: 1_500 }, (_, n) => (n === 750 ? { other: 1 } : { n, text })),
  )
  const { body } = await infer(collection)
  expect(body).toMatchObject({ sampled: 1_000, schema: { required: ['n', 'text'] } })
  expect(JSON.stringify(body)).not.toContain('secret')
  const refused = await declare(collection, { schema: body.schema })
  expect([refused.status, refused.body.code]).toEqual([409, 'schema_incompatible'])
})

test('large documents: fewer of them are read', async () => {
  const collection = unique('c')
  for (let n = 0; n < 5; n++) {
    const ndjson = Array.from({ length: 20 }, () => ({ text: 'x'.repeat(250_000) }))
    await fill(collection, ndjson)
  }
  const { status, body } = await infer(collection)
  expect([status, body.schema?.properties]).toEqual([200, { text: { type: 'string' } }])
})

test('no documents, and workspaces of others: 404', async () => {
  expect((await infer(unique('c'))).status).toBe(404)
  const collection = unique('c')
  await fill(collection, [{ n: 1 }])
  const body = { workspace_id: ws.workspaceId, collection }
  const refused = await call('POST', '/v1/schemas/infer', { as: ws.service, body })
  expect(refused.body.code).toBe('privilege_domain_mismatch')
})
