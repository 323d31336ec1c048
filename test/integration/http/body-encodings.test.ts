/** Bodies of every route that takes JSON: bytes that are not UTF-8, charsets, content codings, repeated names and unsafe numbers are refused. */

import { gzipSync } from 'node:zlib'
import { beforeAll, expect, inject, test } from 'vitest'
import type { AnyOperation } from '../../../src/core/operation.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { pathOf } from '../../support/operation-paths.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const WITH_JSON = OPERATIONS.filter(({ http }) => http.body !== undefined && http.takes === undefined)

async function send(operation: AnyOperation, body: Uint8Array<ArrayBuffer>, headers: Record<string, string>) {
  const as = operation.roles.includes('service') ? workspace.service : workspace.operator
  const { method } = operation.http
  // Bodies are parsed before anything is looked up, so ids need not exist.
  const response = await fetch(`${inject('tenon').url}${pathOf(operation, workspace.workspaceId)}`, {
    method,
    headers: { ...as, 'content-type': 'application/json', ...headers },
    body,
  })
  const { code } = (await response.json()) as { code: string }
  return { status: response.status, code, accepts: response.headers.get('accept-encoding') }
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'))
const MALFORMED = [
  [400, 'body_invalid', bytes('{"a":"caf\xe9"}'), {}],
  [400, 'body_invalid', bytes('{"a":1,"a":2}'), {}],
  [400, 'body_invalid', bytes('{"a":{"__proto__":1}}'), {}],
  [400, 'number_unsafe', bytes('{"a":-9007199254740993}'), {}],
  [400, 'number_unsafe', bytes('{"a":1e400}'), {}],
  [415, 'media_type_unsupported', bytes('{}'), { 'content-type': 'application/json; charset=iso-8859-1' }],
  [415, 'media_type_unsupported', new Uint8Array(gzipSync('{}')), { 'content-encoding': 'gzip' }],
] as const

test.each(WITH_JSON.map((operation) => [operation.name, operation] as const))(
  '%s: a body that would not read back as it was sent: refused',
  async (_name, operation) => {
    for (const [status, code, body, headers] of MALFORMED) {
      const reply = await send(operation, body, headers)
      expect(reply).toEqual({ status, code, accepts: 'content-encoding' in headers ? 'identity' : null })
    }
  },
)

test('YAML: bytes that are not UTF-8: body_invalid; another charset: 415', async () => {
  const type = { 'content-type': 'application/yaml' }
  const validate = OPERATIONS.find(({ http }) => http.texts?.['application/yaml'] !== undefined)
  if (validate === undefined) throw new TypeError('some operation takes YAML')
  expect(await send(validate, bytes('a: caf\xe9'), type)).toMatchObject({ status: 400, code: 'body_invalid' })
  const latin = { 'content-type': 'application/yaml; charset=latin1' }
  expect(await send(validate, bytes('a: 1'), latin)).toMatchObject({ status: 415 })
})

test('UTF-8: charset in capitals, quoted, and a byte-order mark: accepted and read back', async () => {
  for (const charset of ['UTF-8', '"utf-8"', 'utf8']) {
    const { status, body } = await call('POST', '/v1/collections/utf8/documents', {
      as: workspace.service,
      body: '\uFEFF{"a":"café 😀"}',
      headers: { 'content-type': `application/json; charset=${charset}` },
    })
    expect([status, body.a]).toEqual([201, 'café 😀'])
  }
})

test.each(['?a=eq.%ff', '?a=eq.caf%E9', '?%ff=eq.1', '?page[after]=%c3%28'])(
  'URL: %s is not UTF-8: 400 request_malformed',
  async (query) => {
    const { status, body } = await call('GET', `/v1/collections/utf8/documents${query}`, {
      as: workspace.service,
    })
    expect([status, body.code]).toEqual([400, 'request_malformed'])
  },
)

test('URL: a percent sign that escapes nothing: stays; an escaped U+FFFD: is itself', async () => {
  for (const query of ['a=like.50%', 'a=eq.%EF%BF%BD', 'a=eq.%C3%A9']) {
    const path = `/v1/collections/utf8/documents?${query}`
    expect((await call('GET', path, { as: workspace.service })).status).toBe(200)
  }
})
