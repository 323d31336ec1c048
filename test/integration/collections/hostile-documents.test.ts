/** Checks hostile documents: sizes, depth, names, NUL, surrogates, numbers, in both stores. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { declareKind, documents, KINDS, type Row } from '../../support/fixtures/declared-collections.ts'
import {
  createTenantPair,
  expectIsolated,
  expectUnaffected,
  type World,
} from '../../support/fixtures/tenant-pair.ts'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
  for (const kind of KINDS) await declareKind(world.a, kind, kind, { tag: { type: 'string' } })
})

const JSON_BODY = { 'content-type': 'application/json' }

function nested(depth: number): Row {
  let value: Row = { v: 1 }
  for (let level = 1; level < depth; level++) value = { a: value }
  return value
}

const keys = (count: number): Row => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 1]))

describe.each(KINDS)('documents, %s collection', (kind) => {
  const post = (raw: string): Promise<Reply> =>
    world.a.service.send('POST', documents(kind), { raw, headers: JSON_BODY })
  const count = async () => get(await world.a.service.get(`${documents(kind)}?count=exact`), 'page/total')

  test.each([
    ['a document of 300 KiB', JSON.stringify({ a: 'x'.repeat(300 * 1024) }), 413, undefined],
    ['a body of 2 MB', JSON.stringify({ a: 'x'.repeat(2_000_000) }), 413, undefined],
    ['a depth of 40', JSON.stringify(nested(40)), 400, undefined],
    ['a depth of 40 in lists', `{"a":${'['.repeat(40)}${']'.repeat(40)}}`, 400, undefined],
    ['a depth of 100,000', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 400, undefined],
    ['1,001 keys', JSON.stringify(keys(1001)), 400, undefined],
    ['__proto__', '{"__proto__":{"admin":true}}', 400, undefined],
    ['__proto__ inside', '{"o":{"__proto__":{"admin":true}}}', 400, undefined],
    ['NUL in a value', String.raw`{"o":{"a":["x\u0000"]}}`, 400, 'string_nul'],
    ['NUL in a name', String.raw`{"a\u0000b":1}`, 400, undefined],
    ['high surrogate alone', String.raw`{"a":"\ud800"}`, 400, undefined],
    ['low surrogate alone', String.raw`{"a":"\udc00x"}`, 400, undefined],
    ['lone surrogate in a name', String.raw`{"a\ud800":1}`, 400, undefined],
    ['2^53 + 1', '{"n":9007199254740993}', 400, 'number_unsafe'],
    ['-2^53 - 1 inside', '{"o":[{"n":-9007199254740993}]}', 400, 'number_unsafe'],
    ['duplicate names', '{"a":1,"a":2}', 400, 'body_invalid'],
    ['number out of range', '{"n":1e400}', 400, undefined],
    ['reserved member id', '{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}', 400, undefined],
    ['reserved timestamp', '{"_created_at":"2020-01-01T00:00:00Z"}', 400, undefined],
    ['reserved member _tenant_id', '{"_tenant_id":"ten_x"}', 400, undefined],
    ['name that starts with a dollar', '{"$where":"1"}', 400, undefined],
    ['empty name', '{"":1}', 400, undefined],
    ['name of 201 bytes', JSON.stringify({ [`${'ß'.repeat(100)}x`]: 1 }), 400, undefined],
    ['null', 'null', 400, undefined],
    ['number at the root', '5', 400, undefined],
    ['list at the root', '[{"a":1}]', 400, undefined],
    ['nothing', '', 400, undefined],
    ['malformed JSON', '{"a":1', 400, undefined],
    ['trailing comma', '{"a":1,}', 400, undefined],
    ['NaN', '{"a":NaN}', 400, undefined],
    ['two values', '{"a":1}{"b":2}', 400, undefined],
  ])('document: %s: refused before it is stored', async (_, raw, status, code) => {
    const before = await count()
    expectProblem(await post(raw), status, code)
    expect(await count()).toBe(before)
  })

  test('document: contains NUL: refused with a pointer to it', async () => {
    const reply = await post(String.raw`{"o":{"a":["ok","x\u0000"]}}`)
    expect(list(reply, 'errors').map((error) => get(error, 'pointer'))).toContainEqual(
      expect.stringMatching(/\/o\/a\/1$/),
    )
  })

  test.each([
    [
      'exponents',
      '{"n":1e21,"m":6.02e23,"x":1.7976931348623157e308}',
      { n: 1e21, m: 6.02e23, x: 1.7976931348623157e308 },
    ],
    [
      'the largest safe integers',
      '{"n":9007199254740991,"m":-9007199254740991}',
      { n: 9007199254740991, m: -9007199254740991 },
    ],
    ['fractions', '{"n":0.1,"m":-1.5e-7,"z":0}', { n: 0.1, m: -1.5e-7, z: 0 }],
    [
      'names of object prototype members',
      '{"constructor":1,"toString":"x","hasOwnProperty":null,"length":0}',
      { constructor: 1, toString: 'x', hasOwnProperty: null, length: 0 },
    ],
    [
      'surrogate pairs and other scripts',
      String.raw`{"a":"\ud83d\ude00 e\u0301 \u202e","größe":1}`,
      { a: '\u{1F600} e\u0301 \u202e', größe: 1 },
    ],
    ['dots and spaces in names', '{"a.b":1,"c d":2,"e\\"f":3}', { 'a.b': 1, 'c d': 2, 'e"f': 3 }],
    ['empty values', '{"s":"","a":[],"o":{},"x":null}', { s: '', a: [], o: {}, x: null }],
    ['keys in lists of lists', '{"a":[[1,[2,{"b":[]}]],null,"x"]}', { a: [[1, [2, { b: [] }]], null, 'x'] }],
    ['1,000 keys', JSON.stringify(keys(1000)), keys(1000)],
    ['a depth of 30', JSON.stringify(nested(30)), nested(30)],
    ['200 KiB', JSON.stringify({ a: 'x'.repeat(200 * 1024) }), { a: 'x'.repeat(200 * 1024) }],
    ['a name of 200 bytes', JSON.stringify({ ['ß'.repeat(100)]: 1 }), { ['ß'.repeat(100)]: 1 }],
  ])('document: %s: returned as written', async (_, raw, expected) => {
    const made = await post(raw)
    expectStatus(made, 201)
    const read = await world.a.service.get(`${documents(kind)}/${str(made, 'id')}`)
    const fields = Object.entries(Object(read.body)).filter(
      ([name]) => name !== 'id' && !name.startsWith('_'),
    )
    expect(Object.fromEntries(fields)).toEqual(expected)
    expect(read.body).toEqual(made.body)
  })

  test('update: invalid value, or result beyond the limits of documents: refused', async () => {
    const id = str(await post('{"tag":"small"}'), 'id')
    const path = `${documents(kind)}/${id}`
    for (const raw of [
      '{"n":9007199254740993}',
      String.raw`{"a":"\u0000"}`,
      '{"_created_at":"2020-01-01T00:00:00Z"}',
      '{"$set":{}}',
    ]) {
      for (const method of ['PUT', 'PATCH']) {
        expectProblem(await world.a.service.send(method, path, { raw, headers: JSON_BODY }), 400)
      }
    }
    const half = { a: 'x'.repeat(200 * 1024) }
    expectStatus(await world.a.service.put(path, half), 200)
    const grown = await world.a.service.put(path, { b: half.a })
    expectProblem(grown, 413)
    expect((await world.a.service.get(path)).body).toMatchObject({ _version: 2 })
  })

  test('platform: after hostile documents: keeps working', () => expectUnaffected(world))
})

test.each(['9lives', 'x'.repeat(64), 'a.b', 'a%20b', 'a%00b', '%22', "a'b", 'ä'])(
  'collection name: %s: refused',
  async (name) => {
    const path = documents(encodeURI(decodeURI(name)))
    expectProblem(await world.a.service.post(path, { a: 1 }), 400)
  },
)

test('collection name: reserved word of databases: accepted', async () => {
  for (const name of [
    'documents',
    'pg_catalog',
    'select',
    'users',
    '_x',
    'x-y',
    'constructor',
    '__proto__',
  ]) {
    expectStatus(await world.a.service.post(documents(name), { mark: world.a.mark }), 201)
    expect(list(await world.a.service.get(documents(name)))).toHaveLength(1)
  }
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
