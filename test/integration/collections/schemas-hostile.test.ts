/** Declared collections under attack: refused schemas, hostile texts, documents that are expensive to validate. */

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const declare = (body: object) =>
  call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: {
      workspace_id: workspace.workspaceId,
      collection: unique('c'),
      store: 'relational',
      schema: {},
      ...body,
    },
  })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`
const create = (collection: string, body: unknown): Promise<Reply> =>
  call('POST', at(collection), { as: workspace.service, body })

/** Subschemas that refer to each other in a cycle, or double at each level. */
const cyclicSchema = { $ref: '#/$defs/a', $defs: { a: { properties: { x: { $ref: '#/$defs/a' } } } } }
const doublingSchema = {
  $ref: '#/$defs/d0',
  $defs: Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [
      `d${n}`,
      n === 19 ? {} : { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]),
  ),
}
const nested = (depth: number): object =>
  Array.from({ length: depth }).reduce<object>((schema) => ({ not: schema }), {})

describe('refused schemas', () => {
  test.each([
    ['index without fields', { indexes: [{ fields: [] }] }, 400],
    ['unknown keyword', { schema: { unevaluatedProperties: false } }, 422],
    ['misspelt keyword', { schema: { properties: { a: { typ: 'string' } } } }, 422],
    ['other dialect', { schema: { $schema: 'http://json-schema.org/draft-07/schema#' } }, 422],
    ['an $id', { schema: { $id: 'https://example.com/x' } }, 422],
    ['$ref to another host', { schema: { $ref: 'http://127.0.0.1/x' } }, 422],
    ['$ref to nothing', { schema: { $ref: '#/$defs/x' } }, 422],
    ['$ref to Object.prototype', { schema: { $ref: '#/$defs/constructor' } }, 422],
    ['cyclic $ref', { schema: cyclicSchema }, 422],
    ['exponentially doubling $ref', { schema: doublingSchema }, 422],
    ['$data', { schema: { properties: { a: { minimum: { $data: '1/b' } } } } }, 422],
    ['depth', { schema: nested(200) }, 422],
    ['size', { schema: { description: 'x'.repeat(70_000) } }, 422],
    [
      'too many subschemas',
      { schema: { properties: Object.fromEntries(Array.from({ length: 1_500 }, (_, n) => [`p${n}`, {}])) } },
      422,
    ],
    ['invalid pattern', { schema: { properties: { a: { pattern: '(' } } } }, 422],
    ['pattern too long', { schema: { properties: { a: { pattern: 'a'.repeat(300) } } } }, 422],
    ['pattern with a back reference', { schema: { properties: { a: { pattern: '^(a)\\1$' } } } }, 422],
    [
      'back reference in patternProperties',
      { schema: { patternProperties: { '^(?<n>a)\\k<n>$': {} } } },
      422,
    ],
    [
      'pattern that expands too far',
      { schema: { properties: { a: { pattern: '(?:(?:a{99}){99}){99}' } } } },
      422,
    ],
    ['unknown format', { schema: { properties: { a: { format: 'regex' } } } }, 422],
    ['unknown type', { schema: { properties: { a: { type: 'bigint' } } } }, 422],
    ['root that is not an object', { schema: { type: 'array' } }, 422],
    ['reserved field', { schema: { properties: { _version: {} } } }, 422],
    ['NUL', { schema: { properties: { 'a\u0000b': {} } } }, 422],
    ['lone surrogate', { schema: { title: '\ud800' } }, 422],
    ['schema that is not an object', { schema: [] }, 400],
    ['unknown store', { store: 'mysql' }, 400],
    ['unknown access right', { access: { anon: { write: true } } }, 400],
  ])('schema: %s: refused with a pointer', async (_name, body, status) => {
    const reply = await declare(body)
    expect([reply.status, reply.body.code]).toEqual([
      status,
      status === 422 ? 'schema_invalid' : 'validation_failed',
    ])
    expect(reply.body.errors.length).toBeGreaterThan(0)
    expect(reply.body.errors[0].pointer).toMatch(/^\/(schema|store|access|indexes|unique)/)
  })

  test('schema: deeper than the stack: refused', async () => {
    const deep = `${'{"not":'.repeat(60_000)}{}${'}'.repeat(60_000)}`
    const body = `{"workspace_id":"${workspace.workspaceId}","collection":"deep","store":"relational","schema":${deep}}`
    const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
    expect([reply.status, reply.body.code]).toEqual([422, 'schema_invalid'])
    const list = await call('POST', '/v1/schemas', {
      as: workspace.operator,
      body: body.replaceAll('"not":', '"enum":'),
    })
    expect(list.status).toBe(422)
  })

  test('schema: property __proto__: 400 body_invalid', async () => {
    const body = `{"workspace_id":"${workspace.workspaceId}","collection":"proto","store":"relational",
      "schema":{"properties":{"__proto__":{"type":"string"}}}}`
    const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
    expect([reply.status, reply.body.code]).toEqual([400, 'body_invalid'])
  })
})

describe('text in schemas is never executed', () => {
  const NAMES = [
    `"; drop table tenon.schemas; --`,
    `c1"), (select 1`,
    `'] || process.exit() || ['`,
    `\`\${globalThis.pwned = 1}\``,
    '*/ throw 1 /*',
    '\u2028\u2029\n\\',
    'constructor',
    'toString',
    'hasOwnProperty',
    `x$1`,
    '~/~0~1',
  ]
  test.each(['relational', 'document'])(
    'schema: hostile names in a %s collection: stored as text',
    async (store) => {
      const properties = Object.fromEntries(NAMES.map((name) => [name, { type: 'string', enum: [name] }]))
      const patternProperties = Object.fromEntries(
        NAMES.slice(5, 9).map((name) => [`^${name.replace('\\', '')}x`, {}]),
      )
      const schema = { properties, patternProperties, required: NAMES, additionalProperties: false }
      const { status, body } = await declare({ store, schema })
      expect(status).toBe(201)
      const fields = Object.fromEntries(NAMES.map((name) => [name, name]))
      const made = await create(body.collection, fields)
      expect(made.body).toMatchObject(fields)
      const bad = await create(body.collection, Object.fromEntries(NAMES.map((name) => [name, 'x'])))
      expect(bad.body.errors.filter(({ keyword }: Reply['body']) => keyword === 'enum')).toHaveLength(
        NAMES.length,
      )
      const none = await create(body.collection, {})
      expect(none.body.errors.map(({ keyword }: Reply['body']) => keyword)).toEqual(
        NAMES.map(() => 'required'),
      )
      const put = await call('PUT', at(body.collection, made.body.id), {
        as: workspace.service,
        body: { x$1: 'x$1' },
      })
      expect(put.body).toMatchObject(fields)
    },
  )
})

/** Every item is compared with every alternative: several seconds of CPU time. */
const manyAlternatives = {
  properties: {
    a: { type: 'array', items: { anyOf: Array.from({ length: 400 }, (_, n) => ({ const: { n } })) } },
  },
}
const manyItems = Array.from({ length: 30_000 }, () => 1)

describe('costly documents', () => {
  const PATTERNS = ['^(a|a)*$', '^(a|ab?)+$', '^(a+)+$', '(a*)(a*)(a*)(a*)(a*)b']
  test.each(PATTERNS)('pattern: exponential in a backtracking engine: %s: linear time', async (pattern) => {
    const { status, body } = await declare({ schema: { properties: { a: { type: 'string', pattern } } } })
    expect(status).toBe(201)
    const elapsedMs = stopwatch()
    const [costly, valid] = await Promise.all([
      create(body.collection, { a: `${'a'.repeat(5_000)}!` }),
      call('GET', '/healthz'),
    ])
    expect(elapsedMs()).toBeLessThan(2_000)
    expect([costly.status, valid.status]).toEqual([422, 200])
    expect(costly.body.code).toBe('schema_violation')
    expect((await create(body.collection, { b: 1 })).status).toBe(201)
  })

  test('batch: 60 costly documents: each is validation_too_costly, the request keeps to its CPU budget', async () => {
    const { body } = await declare({ schema: manyAlternatives })
    const ops = Array.from({ length: 60 }, () => ({ op: 'create', data: { a: manyItems } }))
    const reply = await call('POST', `/v1/collections/${body.collection}/batch`, {
      as: workspace.service,
      body: { ops, atomic: false },
    })
    const { results } = reply.body
    expect([reply.status, results.length]).toEqual([200, 60])
    for (const { error } of results) expect(error.code).toBe('validation_too_costly')
    expect(results.at(-1).error.detail).toContain('before this one took more than 2 s')
  })

  test('schema change: 25 costly documents: refused after the first 20', async () => {
    const { body } = await declare({ mode: 'off' })
    const ops = Array.from({ length: 25 }, () => ({ op: 'create', data: { a: manyItems } }))
    const path = `/v1/collections/${body.collection}/batch`
    expect((await call('POST', path, { as: workspace.service, body: { ops } })).status).toBe(200)
    const put = { as: workspace.operator, body: { schema: manyAlternatives, mode: 'enforce' } }
    const reply = await call('PUT', `/v1/schemas/${body.id}`, put)
    expect([reply.status, reply.body.code]).toEqual([409, 'schema_incompatible'])
    expect([reply.body.examined, reply.body.offending.length]).toEqual([20, 20])
  })

  test('document: many items under many alternatives: refused', async () => {
    const { body } = await declare({ schema: manyAlternatives })
    const elapsedMs = stopwatch()
    const reply = await create(body.collection, { a: Array.from({ length: 100_000 }, () => 1) })
    expect(elapsedMs()).toBeLessThan(2_000)
    expect(reply.status).toBe(422)
    await eventually(async () => ((await call('GET', '/healthz')).status === 200 ? true : undefined))
  })

  test('document: large and cheap: accepted', async () => {
    const { body } = await declare({ schema: { properties: { a: { type: 'array', uniqueItems: true } } } })
    expect((await create(body.collection, { a: Array.from({ length: 12_000 }, (_, n) => n) })).status).toBe(
      201,
    )
  })
})

test('indexed text: too long, at any position of a batch: refused with its own problem', async () => {
  const { body } = await declare({ schema: { properties: { a: { type: 'string' } } }, unique: [['a']] })
  // Repetitive text is compressed before it is measured.
  const text = Array.from({ length: 300 }, () => randomUUID()).join('')
  const refused = await create(body.collection, { a: text })
  expect([refused.status, refused.body.code]).toEqual([400, 'value_invalid'])
  expect(refused.body.detail).toContain('about 2,600 bytes')
  const ops = [
    { op: 'create', data: { a: 'short' } },
    { op: 'create', data: { a: text } },
  ]
  const batch = await call('POST', `/v1/collections/${body.collection}/batch`, {
    as: workspace.service,
    body: { ops },
  })
  expect([batch.status, batch.body.code, batch.body.op_index]).toEqual([400, 'value_invalid', 1])
  expect((await call('GET', at(body.collection), { as: workspace.service })).body.data).toEqual([])
})

test('schema changes: concurrent, with a scan: one after the other', async () => {
  const { body } = await declare({ schema: { properties: { n: { type: 'integer' } } } })
  const ops = Array.from({ length: 500 }, (_, n) => ({ op: 'create', data: { n } }))
  const fill = () =>
    call('POST', `/v1/collections/${body.collection}/batch`, { as: workspace.service, body: { ops } })
  for (let n = 0; n < 6; n++) expect((await fill()).status).toBe(200)
  const narrower = (minimum: number) => {
    const schema = { properties: { n: { type: 'integer', minimum } } }
    return call('PUT', `/v1/schemas/${body.id}`, { as: workspace.operator, body: { schema } })
  }
  const replies = await Promise.all(Array.from({ length: 12 }, (_, n) => narrower(n - 12)))
  expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200))
  const { revision } = (await call('GET', `/v1/schemas/${body.id}`, { as: workspace.operator })).body
  expect(revision).toBe(Math.max(...replies.map((reply) => reply.body.revision)))
})
