/** JSON Schema of the flow language for editors: public, cacheable, and usable with a validator. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect, test } from 'vitest'
import { call } from '../../support/fixtures/tenants.ts'

const PATH = '/v1/flows/schema.json'

test('schema.json without credentials: cacheable by ETag, validates a flow', async () => {
  const { status, headers, body } = await call('GET', PATH)
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch(/^application\/schema\+json/)
  expect(headers.get('cache-control')).toBe('public, max-age=3600')
  expect(headers.get('vary')).toBeNull()
  const etag = headers.get('etag') ?? ''
  expect(etag).toMatch(/^"[\w-]{43}"$/)
  for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    const again = await call('GET', PATH, { headers: { 'if-none-match': known } })
    expect([again.status, again.headers.get('etag')]).toEqual([304, etag])
  }
  expect((await call('GET', PATH, { headers: { 'if-none-match': '"x"' } })).status).toBe(200)
  const isValid = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false }).compile(body)
  const document = { dsl: '1.0.3', namespace: 'a', name: 'b', version: '1.0.0' }
  const flowCalling = (args: object) => ({
    document,
    do: [{ keep: { call: 'collection.create', with: args } }],
  })
  expect(isValid(flowCalling({ name: 'todos', document: {} }))).toBe(true)
  expect(isValid(flowCalling({ nam: 'todos', document: {} }))).toBe(false)
})

test('schema.json with a query string: counts towards the rate limit of anonymous requests', async () => {
  const { headers } = await call('GET', `${PATH}?x=1`)
  expect(headers.get('ratelimit')).not.toBeNull()
})

test('schema.json with an invalid credential: 200; other methods: 404', async () => {
  const wrong = await call('GET', PATH, { headers: { authorization: 'Bearer nonsense' } })
  expect(wrong.status).toBe(200)
  expect((await call('POST', PATH, { body: {} })).status).toBe(404)
})
