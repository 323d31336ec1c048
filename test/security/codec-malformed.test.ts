/** Malformed payloads at the codec server: 400 with the location of the error, never 500. */

import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let encoded: { metadata: Record<string, string>; data: string }
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const plain = { metadata: { encoding: btoa('json/plain') }, data: btoa('"words"') }
  encoded = (await post('encode', [plain])).body.payloads[0]
})

async function post(route: 'decode' | 'encode', payloads: unknown): Promise<Reply> {
  const body = { payloads, ...(route === 'encode' && { tenant_id: workspace.tenantId }) }
  return call('POST', `/v1/codec/${route}`, { as: workspace.operator, body })
}

const MALFORMED: readonly (readonly [string, unknown, string])[] = [
  ['an object instead of a list', {}, '/payloads'],
  ['null for a payload', [null], '/payloads/0'],
  ['text for a payload', ['x'], '/payloads/0'],
  ['a number for data', [{ data: 5 }], '/payloads/0/data'],
  ['null for data', [{ data: null }], '/payloads/0/data'],
  ['bytes as a list', [{ data: [1, 2] }], '/payloads/0/data'],
  ['data that is not base64', [{ data: 'é' }], '/payloads/0/data'],
  ['one character of base64', [{ data: 'a' }], '/payloads/0/data'],
  ['base64 with a character too many', [{ data: 'YWJjZ' }], '/payloads/0/data'],
  ['base64 with too much padding', [{ data: 'YWJj==' }], '/payloads/0/data'],
  ['both alphabets of base64 in one text', [{ data: '+-aa' }], '/payloads/0/data'],
  ['a line break at the end of base64', [{ data: 'YWJj\n' }], '/payloads/0/data'],
  ['a list for metadata', [{ metadata: [] }], '/payloads/0/metadata'],
  ['null for metadata', [{ metadata: null }], '/payloads/0/metadata'],
  ['a number in metadata', [{ metadata: { encoding: 5 } }], '/payloads/0/metadata/encoding'],
  ['null in metadata', [{ metadata: { encoding: null } }], '/payloads/0/metadata/encoding'],
  ['an object in metadata', [{ metadata: { encoding: {} } }], '/payloads/0/metadata/encoding'],
  ['a number under a name with a line break', [{ metadata: { 'a\nb': 5 } }], '/payloads/0/metadata/a\nb'],
  ['null under a long name', [{ metadata: { ['n'.repeat(201)]: null } }], '/payloads/0/metadata/'],
  ['a good value under a long name', [{ metadata: { ['n'.repeat(201)]: 'YWJj' } }], '/payloads/0/metadata/'],
  ['an object under an empty name', [{ metadata: { '': { a: 1 } } }], '/payloads/0/metadata/'],
  ['the second of two', [{ data: 'YWJj' }, { metadata: { a: 1 } }], '/payloads/1/metadata/a'],
]

for (const route of ['decode', 'encode'] as const) {
  test.each(MALFORMED)(`codec.${route} with %s: 400 with its location`, async (_, payloads, place) => {
    const { status, body } = await post(route, payloads)
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(JSON.stringify(body)).toContain(JSON.stringify(place).slice(1, -1))
  })
}

test('codec.decode with other base64 spellings: decoded', async () => {
  const { metadata, data } = encoded
  const urlSafe = (text: string) => text.replaceAll('+', '-').replaceAll('/', '_')
  const unpadded = (text: string) => text.replace(/=+$/, '')
  const each = (change: (text: string) => string) => ({
    metadata: Object.fromEntries(Object.entries(metadata).map(([name, text]) => [name, change(text)])),
    data: change(data),
  })
  const { status, body } = await post('decode', [
    encoded,
    each(urlSafe),
    each(unpadded),
    each((text) => unpadded(urlSafe(text))),
  ])
  expect(status).toBe(200)
  for (const payload of body.payloads) expect(atob(payload.data)).toBe('"words"')
})

const anything = fc.oneof(
  { weight: 4, arbitrary: fc.base64String({ maxLength: 64 }) },
  fc.jsonValue({ maxDepth: 2 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
)
const names = fc.oneof(
  fc.constantFrom('encoding', 'encryption-key-id', 'tenon', '__proto__'),
  fc.string({ maxLength: 8 }),
)
const encodings = fc.constantFrom('binary/tenon-encrypted', 'binary/tenon-claim', 'json/plain').map(btoa)
const keyIds = fc
  .oneof(
    fc.string(),
    fc.constantFrom('ten_zzzzzzzzzzzzzzzzzzzzzzzzzz.1', 'ten_00000000000000000000000000.999999999'),
  )
  .map((text) => Buffer.from(text).toString('base64'))
const payloadLike = fc.oneof(
  fc.record({ metadata: fc.dictionary(names, anything), data: anything }, { requiredKeys: [] }),
  fc.record({ metadata: fc.record({ encoding: encodings, 'encryption-key-id': keyIds }), data: anything }),
)

test.each(['decode', 'encode'] as const)(
  'codec.%s with 150 random bodies: 200 or 4xx, never 5xx',
  async (route) => {
    await fc.assert(
      fc.asyncProperty(fc.array(payloadLike, { maxLength: 3 }), async (payloads) => {
        const { status } = await post(route, payloads)
        expect(status).toBeLessThan(500)
      }),
      { numRuns: 150 },
    )
  },
)

test('codec.decode with a payload modified in any part: 200 or 400, never 5xx', async () => {
  const changes = fc.record(
    { metadata: fc.dictionary(names, anything), data: anything },
    { requiredKeys: [] },
  )
  const ids = fc.constantFrom(
    `${workspace?.tenantId}.1`,
    `${workspace?.tenantId}.7`,
    `${workspace?.tenantId}.99999999999`,
  )
  await fc.assert(
    fc.asyncProperty(changes, ids, encodings, async (change, id, encoding) => {
      const metadata = { ...encoded.metadata, encoding, 'encryption-key-id': btoa(id), ...change.metadata }
      const { status } = await post('decode', [{ ...encoded, ...change, metadata }])
      expect([200, 400]).toContain(status)
    }),
    { numRuns: 150 },
  )
})
