/** CSV in and out: what RFC 4180 and spreadsheets write, types of cells, and each fault with its line and column. */

import fc from 'fast-check'
import { beforeAll, expect, inject, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

const CSV = { 'content-type': 'text/csv' }

const importCsv = (name: string, body: string, query = ''): Promise<Reply> =>
  call('POST', `/v1/collections/${name}/import?${query}`, { as: ws.service, headers: CSV, body })

async function exportCsv(name: string, query = ''): Promise<string> {
  const headers = { accept: 'text/csv' }
  const { status, body } = await call('GET', `/v1/collections/${name}/export?${query}`, {
    as: ws.service,
    headers,
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return String(body)
}

/** The documents without the fields of the platform, in the order of import. */
async function documentsIn(name: string): Promise<Record<string, unknown>[]> {
  const { body } = await call('GET', `/v1/collections/${name}/documents?page[size]=200`, { as: ws.service })
  return body.data.map(
    ({ id, _version, _created_at, _updated_at, ...fields }: Record<string, unknown>) => fields,
  )
}

/** The documents that a file makes. */
async function imported(body: string, query = ''): Promise<Record<string, unknown>[]> {
  const name = unique('csv')
  const reply = await importCsv(name, body, query)
  expect([reply.status, reply.body.failed], JSON.stringify(reply.body)).toEqual([200, 0])
  return documentsIn(name)
}

async function declared(properties: object, more: object = {}): Promise<string> {
  const name = unique('csv')
  const body = {
    workspace_id: ws.workspaceId,
    collection: name,
    store: 'relational',
    schema: { properties },
    ...more,
  }
  const made = await call('POST', '/v1/schemas', { as: ws.operator, body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return name
}

test('byte-order mark, CRLF, quotes, line breaks in cells, blank lines, no end of line: read as meant', async () => {
  const text = '\ufeffname,"say ""hi""",note\r\n"Ada, L.","a ""b""","two\r\nlines"\r\n\r\nBen,,\r\nC,"",last'
  expect(await imported(text)).toEqual([
    { name: 'Ada, L.', 'say "hi"': 'a "b"', note: 'two\r\nlines' },
    { name: 'Ben' },
    { name: 'C', 'say "hi"': '', note: 'last' },
  ])
  expect(await imported('a;b\n1;2,5\n', 'csv[delimiter]=;')).toEqual([{ a: '1', b: '2,5' }])
  expect(await imported('a\tb\n1\t2\n', 'csv[delimiter]=tab')).toEqual([{ a: '1', b: '2' }])
  expect(await imported('1,Rome\n', 'csv[header]=n,address.city')).toEqual([
    { n: '1', address: { city: 'Rome' } },
  ])
})

test('cells of undeclared fields: texts, or JSON if asked for; null as the option spells it', async () => {
  const text = 'a,b,c,d\n42,true,null,"{""x"":[1]}"\n007,,"",=1+1\n'
  expect(await imported(text)).toEqual([
    { a: '42', b: 'true', c: 'null', d: '{"x":[1]}' },
    { a: '007', c: '', d: '=1+1' },
  ])
  expect(await imported(text, 'csv[cells]=json')).toEqual([
    { a: 42, b: true, c: null, d: { x: [1] } },
    { a: '007', c: '', d: '=1+1' },
  ])
  expect(await imported('a,b\nNULL,"NULL"\n', 'csv[null]=NULL')).toEqual([{ a: null, b: 'NULL' }])
})

test('cells of declared fields: have the declared type; a fault names line, column and pointer', async () => {
  const name = await declared({
    ...{
      n: { type: 'integer' },
      done: { type: 'boolean' },
      zip: { type: 'string' },
      tags: { type: 'array' },
    },
    ...{ at: { properties: { lat: { type: 'number' } } }, price: { type: 'string', format: 'decimal' } },
  })
  const text =
    'n,done,zip,tags,at.lat,price\n1,TRUE,00501,"[""a""]",1.50,9.990\nx,no,1,,,\n9007199254740993,,,,,\n1,2\n'
  const { body } = await importCsv(name, text)
  expect(body).toEqual({
    ...{ lines: 5, created: 1, existing: 0, failed: 3 },
    errors: [
      expect.objectContaining({ line: 3, code: 'schema_violation', column: 'n', pointer: '/n' }),
      expect.objectContaining({ line: 4, code: 'number_unsafe', column: 'n' }),
      { line: 5, code: 'validation_failed', detail: 'The row has 2 cells; the header has 6.' },
    ],
  })
  const [made] = await documentsIn(name)
  expect(made).toEqual({ n: 1, done: true, zip: '00501', tags: ['a'], at: { lat: 1.5 }, price: '9.990' })
})

test('files that are no CSV: end the import with line and column; what was stored before is in the report', async () => {
  const ended = async (body: string, query = '') => {
    const reply = await importCsv(unique('csv'), body, query)
    return [reply.status, reply.body.code, reply.body.detail]
  }
  expect(await ended('a,b\n1,x"y\n')).toEqual([
    400,
    'body_invalid',
    expect.stringContaining('Line 2, column 2: a quote'),
  ])
  expect(await ended('a,b\n1,"x\n')).toEqual([
    400,
    'body_invalid',
    expect.stringContaining('a quote is not closed'),
  ])
  expect(await ended('a,b\n"x"y,1\n')).toEqual([
    400,
    'body_invalid',
    expect.stringContaining('closing quote'),
  ])
  expect(await ended('a,\n1,2\n')).toEqual([400, 'validation_failed', 'Column 2 of the header has no name.'])
  expect(await ended('a,b,a\n')).toEqual([
    400,
    'validation_failed',
    expect.stringContaining('set the same field'),
  ])
  for (const header of ['a,a.b', 'a.b,a', 'x,a.b.c,a.b'])
    expect(await ended(`${header}\n`)).toEqual([
      400,
      'validation_failed',
      expect.stringContaining('set the same field'),
    ])
  expect(await ended('a,_hidden\n')).toEqual([400, 'validation_failed', expect.anything()])
  expect(await ended(`${'a,'.repeat(100_000)}b\n`)).toEqual([
    400,
    'validation_failed',
    expect.stringContaining('columns'),
  ])
  expect(await ended(`a\n"${'x'.repeat(1_100_000)}"\n`)).toEqual([413, 'body_too_large', expect.anything()])
  const latin = Buffer.concat([Buffer.from('a\nb\ncaf'), Buffer.from([0xe9]), Buffer.from('\n')])
  const sent = await fetch(`${inject('tenon').url}/v1/collections/${unique('csv')}/import`, {
    ...{ method: 'POST', headers: { ...ws.service, ...CSV }, body: latin },
  })
  expect(await sent.json()).toMatchObject({
    ...{ code: 'body_invalid', detail: 'The file is not valid UTF-8, after line 1.' },
    hint: expect.stringContaining('UTF-8'),
  })
  expect((await importCsv(unique('csv'), '')).body).toMatchObject({ lines: 0, created: 0, failed: 0 })
  const name = unique('csv')
  const rows = Array.from({ length: 1_200 }, (_, n) => `${n}\n`).join('')
  const { body } = await importCsv(name, `n\n${rows}"x\n`)
  expect(body.imported).toMatchObject({ lines: 1_001, created: 1_000 })
})

test('rows with line breaks: the report names the line on which a row begins, and ends after the last line of a row', async () => {
  const name = await declared({ n: { type: 'integer' }, text: { type: 'string' } })
  for (const end of ['\n', '\r\n']) {
    const rows = ['n,text', `1,"a${end}b"`, `x,"c${end}d"`, '2,e'].join(end)
    const { body } = await importCsv(name, rows, 'on_error=stop')
    expect([body.code, body.line]).toEqual(['schema_violation', 4])
    expect(body.imported).toMatchObject({ lines: 5, created: 1, failed: 1 })
    const many = `"x${end}y"${end}`.repeat(1_200)
    const ended = await importCsv(unique('csv'), `text${end}${many}"x${end}`)
    expect(ended.body.imported).toMatchObject({ lines: 2_001, created: 1_000 })
  }
})

test('export: columns of select or of the declaration; formulas are left, or escaped if asked for', async () => {
  const name = await declared({ title: { type: 'string' }, n: { type: 'number' }, more: { type: 'object' } })
  const as = ws.service
  for (const body of [
    { title: '=1+1', n: -2, more: { x: 'a"b' } },
    { title: '', n: 1 },
    { n: 3, other: 1 },
  ])
    expect((await call('POST', `/v1/collections/${name}/documents`, { as, body })).status).toBe(201)
  expect(await exportCsv(name, 'select=title,n,more.x&order=n')).toMatch(
    /^id,title,n,more\.x\r\n[0-9a-f-]{36},=1\+1,-2,"a""b"\r\n[0-9a-f-]{36},"",1,\r\n[0-9a-f-]{36},,3,\r\n$/,
  )
  expect(await exportCsv(name, 'select=title,n&n=lt.0&csv[formulas]=escape')).toContain(",'=1+1,-2\r\n")
  const [header = '', first = ''] = (await exportCsv(name)).split('\r\n')
  expect(header).toBe('id,n,more,title,_created_at,_updated_at,_version,_owner')
  expect(first).toContain('"{""x"":""a\\""b""}"')
  const undeclared = unique('csv')
  await call('POST', `/v1/collections/${undeclared}/documents`, { as, body: { a: 1, '=b': 2 } })
  const headers = { accept: 'text/csv' }
  // A name in the quotes of a path is no formula; one without quotes is escaped as a value is.
  expect(await exportCsv(undeclared, 'select=a,"=b"&csv[formulas]=escape')).toMatch(/^id,a,"""=b"""\r\n/)
  expect(await exportCsv(undeclared, 'select=a,-b&csv[formulas]=escape')).toMatch(/^id,a,('-b|"""-b""")\r\n/)
  for (const text of [',', '"', '\n', ';', '\t']) {
    const path = `/v1/collections/${name}/export?csv[null]=${encodeURIComponent(text)}`
    expect((await call('GET', path, { as, headers })).body.code).toBe('validation_failed')
  }
  const refused = await call('GET', `/v1/collections/${undeclared}/export`, { as, headers })
  expect([refused.status, refused.body.code, refused.body.hint]).toEqual([
    ...[400, 'select_invalid', expect.stringContaining('select=')],
  ])
  const reply = await call('GET', `/v1/collections/${undeclared}/export?select=a`, { as, headers })
  expect(reply.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
  expect(reply.headers.get('content-disposition')).toBe(`attachment; filename="${undeclared}.csv"`)
})

/** Values that CSV has trouble with. */
const texts = fc.oneof(
  fc.constantFrom(
    '',
    'a',
    '42',
    'true',
    'null',
    '"',
    ',',
    '\n',
    '\r\n',
    '=1',
    '[1]',
    '{"a":1}',
    ' x ',
    '\ufeff',
    'NULL',
    "'",
    ';',
  ),
  fc
    .string({ unit: 'grapheme', maxLength: 8 })
    .filter((text) => text.isWellFormed() && !text.includes('\u0000')),
)
const values = fc.oneof(
  texts,
  fc.constantFrom(0, -1.5, 1e21, 42, true, false, null),
  fc.array(texts, { maxLength: 2 }),
  fc.record({ x: texts }),
)
const documents = fc.record({ a: values, b: texts, 'c.d': values }, { requiredKeys: [] })

test('random documents: exported as CSV and imported: are the same as those that a batch has made', async () => {
  const count = repeated(120, 1_000)
  const made = fc.sample(documents, { numRuns: count, seed: 20_261_130 })
  const [from, to] = [unique('csv'), unique('csv')]
  for (let at = 0; at < count; at += 100) {
    const ops = made.slice(at, at + 100).map((data) => ({ op: 'create', data }))
    const reply = await call('POST', `/v1/collections/${from}/batch`, { as: ws.service, body: { ops } })
    expect(reply.status, JSON.stringify(reply.body)).toBe(200)
  }
  const select = encodeURIComponent('a,b,"c.d"')
  for (const delimiter of [',', ';', 'tab']) {
    const options = `csv[cells]=json&csv[null]=NULL&csv[delimiter]=${encodeURIComponent(delimiter)}`
    const text = await exportCsv(from, `select=${select}&${options}`)
    const name = delimiter === ',' ? to : unique('csv')
    const { body } = await importCsv(name, text, options)
    expect(body).toMatchObject({ created: count, failed: 0, errors: [] })
    const read = async (of: string) =>
      (
        await call('POST', `/v1/collections/${of}/query`, { as: ws.service, body: { limit: 1_000 } })
      ).body.data.map(({ _created_at, _updated_at, ...rest }: Record<string, unknown>) => rest)
    expect(await read(name)).toEqual(await read(from))
  }
})
