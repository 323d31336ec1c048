/** Checks import and export: lines, errors with line numbers, repeated files, access. */

import { beforeAll, describe, expect, test } from 'vitest'
import { type Caller, expectProblem, expectStatus, get, list, type Reply } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'
import { declare, documents, fill, type Row, tags } from '../../support/fixtures/declared-collections.ts'

let world: World

const NDJSON = { 'content-type': 'application/x-ndjson' }
const KINDS = ['relational', 'document', 'undeclared'] as const
const PROPERTIES = {
  tag: { type: 'string' },
  n: { type: 'integer' },
  sku: { type: 'string' },
  mark: { type: 'string' },
}

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
})

const lines = (rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

function importLines(name: string, raw: string, more = '', caller: Caller = world.a.service): Promise<Reply> {
  return caller.send('POST', `/v1/collections/${name}/import${more}`, { raw, headers: NDJSON })
}

function exportLines(name: string, query = '', caller: Caller = world.a.service): Promise<Reply> {
  return caller.get(`/v1/collections/${name}/export${query}`)
}

/** The documents of an export; fails unless each is one line and the last line is terminated. */
function rows(reply: Reply): Row[] {
  expectStatus(reply, 200)
  expect(reply.headers.get('content-type')).toMatch(/^application\/x-ndjson/)
  expect(reply.text).toMatch(/^$|\n$/)
  return reply.text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}

/** Creates a collection of its kind with a unique name. */
async function newCollection(kind: (typeof KINDS)[number]): Promise<string> {
  const name = `c${word()}`
  if (kind === 'undeclared') return name
  await declare(world.a, name, {
    store: kind,
    schema: { type: 'object', properties: PROPERTIES },
    unique: [['sku']],
  })
  return name
}

const many = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ tag: `t${n}`, n, mark: world.a.mark }))

describe.each(KINDS)('import and export, %s collection', (kind) => {
  test('import: several lines: stored in order, can be filtered', async () => {
    const name = await newCollection(kind)
    const reply = await importLines(name, lines(many(30)))
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ created: 30, failed: 0 })
    const page = await world.a.service.get(`${documents(name)}?page[size]=200`)
    expect(list(page).map((row) => get(row, 'n'))).toEqual(Array.from({ length: 30 }, (_, n) => n))
    expect(list(page)[0]).toMatchObject({
      _version: 1,
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
    })
    expect(tags(await world.a.service.get(`${documents(name)}?n=gte.28`))).toEqual(['t28', 't29'])
  })

  test('import: blank lines, CRLF, unterminated last line: accepted', async () => {
    const name = await newCollection(kind)
    expect((await importLines(name, '{"n":1}\r\n\r\n\n{"n":2}')).body).toMatchObject({
      created: 2,
      failed: 0,
    })
  })

  test('import: empty file: accepted', async () => {
    expect((await importLines(await newCollection(kind), '')).body).toMatchObject({ created: 0, failed: 0 })
  })

  test('import: invalid lines: reported by number, the others are stored', async () => {
    const name = await newCollection(kind)
    const bad = [
      '{"n":',
      '[1]',
      'null',
      '{"_x":3}',
      '{"a":"\\u0000"}',
      '{"n":9007199254740993}',
      '{"$set":1}',
    ]
    const raw = `{"n":1}\n${bad.join('\n')}\n{"n":2}\n`
    const reply = await importLines(name, raw)
    expectStatus(reply, 200)
    expect(reply.body).toMatchObject({ created: 2, failed: bad.length })
    const errors = list(reply, 'errors')
    expect(errors.map((error) => get(error, 'line'))).toEqual(bad.map((_, at) => at + 2))
    for (const error of errors) expect(get(error, 'code')).toMatch(/^\w+$/)
    expect(list(await world.a.service.get(documents(name)))).toHaveLength(2)
  })

  test('export: whole collection: each document once, with its id, ordered by id', async () => {
    const name = await newCollection(kind)
    await importLines(name, lines(many(450)))
    const exported = rows(await exportLines(name))
    expect(exported.map((row) => row['n'])).toEqual(Array.from({ length: 450 }, (_, n) => n))
    const first = list(await world.a.service.get(`${documents(name)}?page[size]=1`))[0]
    expect(exported[0]).toEqual(first)
  })

  test('export: filters, order and select: applied as in a list', async () => {
    const name = await newCollection(kind)
    await importLines(name, lines(many(10)))
    const found = rows(await exportLines(name, '?n=gte.7&order=n.desc&select=n'))
    expect(found).toEqual([9, 8, 7].map((n) => ({ id: expect.any(String), n })))
    expect(rows(await exportLines(name, '?n=gt.100'))).toEqual([])
    expectProblem(await exportLines(name, '?n=foo.1'), 400)
  })

  test('import: same export twice: each document once (T77)', async () => {
    const [from, to] = [await newCollection(kind), await newCollection(kind)]
    await importLines(from, lines(many(20)))
    const file = (await exportLines(from)).text
    expect((await importLines(to, file)).body).toMatchObject({ created: 20, failed: 0 })
    expect((await importLines(to, file)).body).toMatchObject({ created: 0, failed: 0 })
    const fields = ({ id, tag, n }: Row) => ({ id, tag, n })
    expect(rows(await exportLines(to)).map(fields)).toEqual(rows(await exportLines(from)).map(fields))
  })

  test('import: file without ids, twice with one Idempotency-Key: stored once', async () => {
    const name = await newCollection(kind)
    const headers = { ...NDJSON, 'idempotency-key': word() }
    const raw = lines(many(5))
    const send = () => world.a.service.send('POST', `/v1/collections/${name}/import`, { raw, headers })
    for (const reply of [await send(), await send()]) expectStatus(reply, 200)
    expect(rows(await exportLines(name))).toHaveLength(5)
  })
})

describe.each(['relational', 'document'] as const)('import, declared collection, %s', (store) => {
  test('import: schema and unique fields: checked line by line', async () => {
    const name = await newCollection(store)
    const reply = await importLines(name, lines([{ sku: 'a' }, { n: 'many' }, { sku: 'a' }, { sku: 'b' }]))
    expect(reply.body).toMatchObject({ created: 2, failed: 2 })
    const diagnostics = list(reply, 'errors').map((error) => [get(error, 'line'), get(error, 'code')])
    expect(diagnostics.toSorted()).toEqual([
      [2, 'schema_violation'],
      [3, 'unique_violation'],
    ])
  })
})

describe('files', () => {
  test('import and export: 5,000 lines: complete', async () => {
    const name = await newCollection('undeclared')
    const reply = await importLines(name, lines(many(5000)))
    expect(reply.body).toMatchObject({ created: 5000, failed: 0 })
    const ids = new Set(rows(await exportLines(name)).map(({ id }) => id))
    expect(ids.size).toBe(5000)
  })

  test('import: line larger than a document may be: an error of that line', async () => {
    const name = await newCollection('undeclared')
    const raw = lines([{ n: 1 }, { big: 'x'.repeat(300 * 1024) }, { n: 2 }])
    const reply = await importLines(name, raw)
    if (reply.status !== 200) return expectProblem(reply, 413)
    expect(reply.body).toMatchObject({ created: 2, failed: 1 })
    expect(get(reply, 'errors/0/line')).toBe(2)
  })

  test('import: line without an end: bounded memory', async () => {
    const name = await newCollection('undeclared')
    const reply = await importLines(name, `{"big":"${'x'.repeat(8 * 1024 * 1024)}`)
    if (reply.status === 200) expect(reply.body).toMatchObject({ created: 0, failed: 1 })
    else expectProblem(reply, reply.status === 413 ? 413 : 400)
    expect(rows(await exportLines(name))).toEqual([])
  })

  test('import: another media type: 415', async () => {
    const headers = { 'content-type': 'text/csv' }
    const path = '/v1/collections/undeclared/import'
    expectProblem(await world.a.service.send('POST', path, { raw: 'a,b\n', headers }), 415)
  })

  test('import: invalid collection name: 400', async () => {
    expectProblem(await importLines('9lives', '{"n":1}\n'), 400)
    expectProblem(await exportLines('9lives'), 400)
  })
})

describe('access', () => {
  test('anon key: export as access allows; import only if access allows', async () => {
    const name = await newCollection('relational')
    await fill(world.a, name, [{ tag: 'one' }])
    expect(rows(await exportLines(name, '', world.a.anon))).toHaveLength(1)
    const reply = await importLines(name, lines([{ tag: 'two' }]), '', world.a.anon)
    expectProblem(reply, 403)
    expect(rows(await exportLines(name))).toHaveLength(1)
  })

  test('export: in tenant B: nothing of A', async () => {
    const name = await newCollection('undeclared')
    await importLines(name, lines(many(3)))
    expect(rows(await exportLines(name, '', world.b.service))).toEqual([])
  })

  test('import: ids of an export of A, in tenant B: documents of B; those of A are unchanged', async () => {
    const name = await newCollection('undeclared')
    const [id] = await fill(world.a, name, [{ tag: 'mine', n: 1 }])
    const reply = await importLines(
      name,
      lines([{ id, tag: 'theirs', mark: world.b.mark }]),
      '',
      world.b.service,
    )
    expectStatus(reply, 200)
    // The reply must not disclose whether another tenant uses the id: to B it is free.
    expect(reply.body).toMatchObject({ created: 1, existing: 0, failed: 0 })
    expect((await world.a.service.get(`${documents(name)}/${id}`)).body).toMatchObject({
      tag: 'mine',
      _version: 1,
    })
    expect(tags(await world.b.service.get(documents(name)))).toEqual(['theirs'])
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
