/** Import and export: a round trip keeps documents, errors carry line numbers, repetitions create nothing twice. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CORE_LIMITS } from '../../../src/core/limits.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { exported, importInto, lines } from '../../support/clients/ndjson.ts'
import { closeSubscriptions } from '../../support/clients/sse.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})
afterAll(closeSubscriptions)

const SCHEMA = { properties: { n: { type: 'integer' }, title: { type: 'string' } } }
const STORES: Readonly<Record<string, object | undefined>> = {
  undeclared: undefined,
  relational: { store: 'relational', schema: SCHEMA },
  document: { store: 'document', schema: SCHEMA },
}

async function createCollection(declaration?: object): Promise<string> {
  const collection = unique('c')
  if (declaration === undefined) return collection
  const body = { workspace_id: workspace.workspaceId, collection, ...declaration }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  return collection
}

const documents = (name: string, id = '') => `/v1/collections/${name}/documents${id && `/${id}`}`
const numbers = (all: readonly { n?: unknown }[]) => all.map(({ n }) => n)
const count = (to: number) => Array.from({ length: to }, (_, n) => ({ n }))

describe.each(Object.keys(STORES))('import and export, %s', (store) => {
  test('round trip: imported elsewhere, twice: identical documents, once', async () => {
    const as = workspace.service
    const [from, to] = [await createCollection(STORES[store]), await createCollection(STORES[store])]
    const made = [{ n: 1, title: 'a' }, { n: null, more: { deep: [1, null, 'ä😀'] } }, {}]
    const values =
      store === 'undeclared' ? made : made.map(({ n, ...rest }) => (n === null ? rest : { n, ...rest }))
    for (const body of values) await call('POST', documents(from), { as, body })
    const text = await call('GET', `/v1/collections/${from}/export`, { as })
    expect(text.headers.get('content-type')).toBe('application/x-ndjson')
    expect(text.headers.get('content-length')).toBeNull()
    const all = await exported(from, { as })
    for (const document of all)
      expect((await call('GET', documents(from, document.id), { as })).body).toEqual(document)
    expect((await importInto(to, text.body, { as })).body).toEqual({
      ...{ lines: 3, created: 3, existing: 0, failed: 0, errors: [] },
    })
    expect((await importInto(to, text.body, { as })).body).toMatchObject({ created: 0, existing: 3 })
    const fieldsOf = ({ _created_at, _updated_at, ...fields }: Record<string, unknown>) => fields
    expect((await exported(to, { as })).map(fieldsOf)).toEqual(all.map(fieldsOf))
  })

  test('import: id exists: the existing document is unchanged', async () => {
    const as = workspace.service
    const name = await createCollection(STORES[store])
    const { body } = await call('POST', documents(name), { as, body: { n: 1 } })
    const again = lines({ id: body.id, n: 2 }, { id: body.id.toUpperCase(), n: 3 })
    expect((await importInto(name, again, { as })).body).toMatchObject({ created: 0, existing: 2 })
    expect((await call('GET', documents(name, body.id), { as })).body).toEqual(body)
  })

  test('import: more lines than a chunk and a page: all stored, one change event each', async () => {
    const as = workspace.service
    const name = await createCollection(STORES[store])
    const many = count(2_345)
    expect((await importInto(name, lines(...many), { as })).body).toMatchObject({
      lines: 2_345,
      created: 2_345,
    })
    const all = await exported(name, { as })
    expect(numbers(all)).toEqual(numbers(many))
    expect(new Set(all.map(({ id }) => id)).size).toBe(2_345)
    const events = await publishedChanges(workspace, name)
    expect(events.map(({ data }) => data.id).sort()).toEqual(all.map(({ id }) => id))
  })
})

test('export: filters, order and selection: same as in the list', async () => {
  const as = workspace.service
  const name = await createCollection(STORES['relational'])
  const rows = count(1_500).map(({ n }) => ({ n, title: n % 2 === 0 ? 'even' : 'odd', more: n }))
  await importInto(name, lines(...rows), { as })
  const query = '?title=eq.odd&n=gte.10&order=n.desc&select=n'
  const found = await exported(name, { as, query })
  expect(numbers(found)).toEqual(
    count(1_500)
      .map(({ n }) => n)
      .filter((n) => n % 2 === 1 && n >= 10)
      .reverse(),
  )
  expect(Object.keys(found[0])).toEqual(['id', 'n'])
  for (const [wrong, code] of [
    ['?n=eq.x', 'filter_type_mismatch'],
    ['?n=equals.1', 'filter_operator_unknown'],
    ['?order=,', 'order_invalid'],
    ['?select=,', 'select_invalid'],
  ])
    expect((await call('GET', `/v1/collections/${name}/export${wrong}`, { as })).body.code).toBe(code)
})

test('export: empty collection: empty file; HEAD: headers only', async () => {
  const as = workspace.service
  const reply = await call('GET', '/v1/collections/nothing/export', { as })
  expect([reply.status, reply.body]).toEqual([200, ''])
  const head = await call('HEAD', '/v1/collections/nothing/export', { as })
  expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
  expect((await importInto('nothing', '', { as })).body).toMatchObject({ lines: 0, created: 0 })
})

test('export: documents of the maximum size after small ones: complete, with smaller pages', async () => {
  const as = workspace.service
  const name = await createCollection()
  const large = { x: 'x'.repeat(COLLECTION_LIMITS.documentBytesMax - 100) }
  const many = count(110 + Math.ceil(INFRA_LIMITS.rowsBytesMax / COLLECTION_LIMITS.documentBytesMax) + 1)
  const rows = many.map(({ n }) => (n < 110 ? { n } : { n, ...large }))
  expect((await importInto(name, lines(...rows), { as })).body.created).toBe(rows.length)
  expect(numbers(await exported(name, { as }))).toEqual(numbers(rows))
})

test('import: byte order mark, CRLF and blank lines: accepted', async () => {
  const as = workspace.service
  const name = await createCollection()
  const text = '\uFEFF{"n":1}\r\n\r\n   \n\t{"n":2} \r\n\uFEFF{"n":3}\n\n{"n":4}'
  expect((await importInto(name, text, { as })).body).toEqual({
    ...{ lines: 7, created: 4, existing: 0, failed: 0, errors: [] },
  })
  expect(numbers(await exported(name, { as }))).toEqual([1, 2, 3, 4])
})

test('import: some lines are invalid: reported by number, the others are stored', async () => {
  const as = workspace.service
  const name = await createCollection({ ...STORES['relational'], mode: 'enforce' })
  const bad = [
    ['{"n":', 'body_invalid', undefined],
    ['[1]', 'validation_failed', undefined],
    ['null', 'validation_failed', undefined],
    ['{"n":"x"}', 'schema_violation', '/n'],
    ['{"id":"7"}', 'validation_failed', '/id'],
    ['{"id":7}', 'validation_failed', '/id'],
    ['{"_x":1}', 'validation_failed', '/_x'],
    ['{"a":{"__proto__":{}}}', 'body_invalid', undefined],
    ['{"a":{"\\u005f_proto__":{}}}', 'body_invalid', undefined],
    ['{"constructor":{"prototype":{}}}', 'body_invalid', undefined],
    ['{"a":9007199254740993}', 'number_unsafe', '/a'],
    ['{"a":"\\u0000"}', 'string_nul', '/a'],
    ['{"a":"\\ud800"}', 'value_invalid', undefined],
    [`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'validation_failed', undefined],
    [`{"a":"${'x'.repeat(COLLECTION_LIMITS.documentBytesMax)}"}`, 'body_too_large', undefined],
  ] as const
  const text = bad.map(([line], n) => `{"n":${n}}\n${line}\n`).join('')
  const { status, body } = await importInto(name, text, { as })
  expect([status, body.lines, body.created, body.failed]).toEqual([200, 30, 15, 15])
  const diagnostics = body.errors.map(({ line, code }: { line: number; code: string }) => [line, code])
  expect(diagnostics).toEqual(bad.map(([, code], n) => [2 * n + 2, code]))
  for (const [n, [, , pointer]] of bad.entries())
    if (pointer !== undefined) expect(body.errors[n].pointer).toBe(pointer)
  expect(numbers(await exported(name, { as }))).toEqual(bad.map((_, n) => n))
})

test('import: documents that create refuses: refused, and the other way round', async () => {
  const as = workspace.service
  const bodies = [
    '{"a":1}',
    '{}',
    '{"a":',
    '"x"',
    '{"__proto__":1}',
    '{"constructor":1}',
    '{"_a":1}',
    '{"$a":1}',
    '{"":1}',
  ]
  for (const body of bodies) {
    const one = await call('POST', documents('same'), { as, body })
    const many = await importInto('same', body, { as })
    expect([body, many.body.created]).toEqual([body, one.status === 201 ? 1 : 0])
    if (one.status !== 201) expect(many.body.errors[0].code).toBe(one.body.code)
  }
})

test('import: many errors: the first 20 are listed, all are counted', async () => {
  const text = count(1_200)
    .map(({ n }) => (n % 2 === 0 ? '{"n":1}' : 'x'))
    .join('\n')
  const { body } = await importInto(unique('c'), text, { as: workspace.service })
  expect([body.created, body.failed, body.errors.length]).toEqual([
    600,
    600,
    CORE_LIMITS.diagnosticsReturnedMax,
  ])
  expect(body.errors.at(-1).line).toBe(2 * CORE_LIMITS.diagnosticsReturnedMax)
})

test('import: on_error=stop: ends at the first error; earlier lines are stored, later ones are not', async () => {
  const as = workspace.service
  const name = await createCollection()
  const text = `${lines(...count(700))}nonsense\n${lines({ n: 'after' })}`
  const { status, body } = await importInto(name, text, { as, query: '?on_error=stop' })
  expect([status, body.code, body.line]).toEqual([400, 'body_invalid', 701])
  expect(body.imported).toMatchObject({ lines: 701, created: 700, failed: 1, errors: [{ line: 701 }] })
  expect(numbers(await exported(name, { as }))).toEqual(numbers(count(700)))
  expect((await importInto(name, text, { as, query: '?on_error=skip' })).body.code).toBe('validation_failed')
})

describe('import with unique values', () => {
  const createUniqueCollection = () =>
    createCollection({ store: 'relational', schema: SCHEMA, unique: [['n']] })

  test('import: values taken: reported by line, the rest of the chunk is stored', async () => {
    const as = workspace.service
    const name = await createUniqueCollection()
    const rows = count(400).map(({ n }) => ({ n: n === 123 || n === 399 ? 7 : n }))
    const { body } = await importInto(name, lines(...rows), { as })
    expect(body).toMatchObject({ lines: 400, created: 398, existing: 0, failed: 2 })
    expect(body.errors).toMatchObject([
      { line: 124, code: 'unique_violation', pointer: '/n' },
      { line: 400, code: 'unique_violation', pointer: '/n' },
    ])
    expect(await exported(name, { as })).toHaveLength(398)
    const one = await call('POST', documents(name), { as, body: { n: 7 } })
    expect([one.status, one.body.code]).toEqual([409, 'unique_violation'])
  })

  test('import: values taken and on_error=stop: ends at that line', async () => {
    const as = workspace.service
    const name = await createUniqueCollection()
    const rows = count(400).map(({ n }) => ({ n: n === 123 ? 7 : n }))
    const { status, body } = await importInto(name, lines(...rows), { as, query: '?on_error=stop' })
    expect([status, body.code, body.line]).toEqual([409, 'unique_violation', 124])
    expect(body.imported).toMatchObject({ lines: 124, created: 123, failed: 1 })
    expect(numbers(await exported(name, { as }))).toEqual(numbers(count(123)))
  })
})

test('import: quota reached: used up to the last document, the reply reports the progress', async () => {
  const as = workspace.service
  const limitedWorkspace = await addTestWorkspace(workspace)
  const name = unique('c')
  const body = { workspace_id: limitedWorkspace.workspaceId, limits: { documents: 777 } }
  expect((await call('PUT', '/v1/quotas', { as: workspace.operator, body })).status).toBe(200)
  const text = `\n${lines(...count(1_500))}`
  const refused = await importInto(name, text, { as: limitedWorkspace.service })
  expect([refused.status, refused.body.code, refused.body.limit]).toEqual([429, 'quota_exceeded', 777])
  expect(refused.body.imported).toMatchObject({ lines: 778, created: 777, existing: 0, failed: 0 })
  expect(numbers(await exported(name, { as: limitedWorkspace.service }))).toEqual(numbers(count(777)))
  expect(await exported(name, { as })).toEqual([])
})

describe('Idempotency-Key', () => {
  test('import: same key and file: same documents; another key: other documents', async () => {
    const as = workspace.service
    const name = await createCollection()
    const headers = { 'idempotency-key': 'file "1"' }
    const text = lines(...count(1_100))
    expect((await importInto(name, text, { as, headers })).body).toMatchObject({
      created: 1_100,
      existing: 0,
    })
    expect((await importInto(name, text, { as, headers })).body).toMatchObject({
      created: 0,
      existing: 1_100,
    })
    expect(numbers(await exported(name, { as }))).toEqual(numbers(count(1_100)))
    const other = { 'idempotency-key': 'file "2"' }
    expect((await importInto(name, text, { as, headers: other })).body).toMatchObject({ created: 1_100 })
    expect((await importInto(await createCollection(), text, { as, headers })).body).toMatchObject({
      created: 1_100,
    })
  })

  test('import: same key, one line changed: another document, with the time of the first import', async () => {
    const as = workspace.service
    const name = await createCollection()
    const headers = { 'idempotency-key': 'changed' }
    await call('POST', documents(name), { as, body: { n: 'before' } })
    await importInto(name, lines({ n: 0 }, { n: 1 }), { as, headers })
    const again = await importInto(name, lines({ n: 0 }, { n: 'new' }), { as, headers })
    expect(again.body).toMatchObject({ created: 1, existing: 1 })
    const numbersSeen = numbers(await exported(name, { as }))
    expect([numbersSeen[0], numbersSeen.slice(1).sort()]).toEqual(['before', [0, 1, 'new']])
  })

  test('import: interrupted file sent again: continues where it ended', async () => {
    const as = workspace.service
    const name = await createCollection()
    const headers = { 'idempotency-key': 'k' }
    await importInto(name, lines(...count(600)), { as, headers })
    const whole = await importInto(name, lines(...count(900)), { as, headers })
    expect(whole.body).toMatchObject({ created: 300, existing: 600 })
    expect(numbers(await exported(name, { as }))).toEqual(numbers(count(900)))
  })

  test('import: same file and key twice at once: each document once', async () => {
    const as = workspace.service
    const name = await createCollection()
    const headers = { 'idempotency-key': 'k' }
    const text = lines(...count(3_000))
    const both = await Promise.all([1, 2, 3].map(() => importInto(name, text, { as, headers })))
    expect(both.map(({ status }) => status)).toEqual([200, 200, 200])
    const sum = (member: string) => both.reduce((all, { body }) => all + body[member], 0)
    expect([sum('created'), sum('existing'), sum('failed')]).toEqual([3_000, 6_000, 0])
    expect(numbers(await exported(name, { as }))).toEqual(numbers(count(3_000)))
  })
})

describe('anon keys', () => {
  const declare = (anon: object) =>
    createCollection({ store: 'relational', schema: SCHEMA, access: { anon } })

  test('import by anon key: access allows create: stored, and read as access allows', async () => {
    const as = workspace.anon
    const writable = await declare({ read: true, create: true })
    expect((await importInto(writable, lines({ n: 1 }), { as })).body).toMatchObject({ created: 1 })
    for (const access of [
      { read: true, create: false },
      { read: false, create: true },
    ]) {
      const refused = await importInto(await declare(access), lines({ n: 1 }), { as })
      expect([refused.status, refused.body.code]).toEqual([403, 'forbidden'])
    }
    expect((await importInto(unique('c'), lines({ n: 1 }), { as })).body.code).toBe('forbidden')
  })

  test('export by anon key: access allows read: exported; otherwise refused', async () => {
    const [open, hidden] = [await declare({ read: true }), await declare({ read: false })]
    for (const name of [open, hidden]) await importInto(name, lines({ n: 1 }), { as: workspace.service })
    expect(numbers(await exported(open, { as: workspace.anon }))).toEqual([1])
    const refused = await call('GET', `/v1/collections/${hidden}/export`, { as: workspace.anon })
    expect([refused.status, refused.body.code, refused.body.detail]).toEqual([
      ...[403, 'forbidden'],
      `Anon keys may not read documents of ${hidden}.`,
    ])
  })
})
