/** Secrets sent anywhere in a request appear in no log line, audit entry or problem. */

import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type CountedApi, startCountedApi } from '../../support/stack/counted-api.ts'

let own: CountedApi
let url: string
let workspace: TestWorkspace
beforeAll(async () => {
  own = await startCountedApi()
  url = await own.app.listen({ port: 0, host: '127.0.0.1' })
  workspace = await createTestWorkspace()
})
afterAll(() => own?.close())

const letters = fc.stringMatching(/^[A-Za-z0-9_-]{24,40}$/)
const secret = fc.oneof(
  fc.constantFrom('anon' as const, 'service' as const).map((kind) => makeKey(kind)),
  fc.tuple(letters, letters, letters).map(([a, b, c]) => `eyJ${a}.eyJ${b}.${c}`),
)
const position = fc.constantFrom(
  'path',
  'query',
  'name of a query',
  'header',
  'request id',
  'body',
  'name in a body',
  'credential',
)
const route = fc.constantFrom(
  ['POST', '/v1/collections/$/documents'] as const,
  ['GET', '/v1/collections/$/documents'] as const,
  ['PATCH', '/v1/api-keys/$'] as const,
  ['POST', '/v1/functions/$/invoke'] as const,
  ['POST', '/v1/api-keys'] as const,
  ['GET', '/v1/nothing/$'] as const,
)

function send(method: 'GET' | 'POST' | 'PATCH', path: string, at: string, hidden: string, as: Caller) {
  const query =
    at === 'query' ? `?select=${hidden}&token=${hidden}` : at === 'name of a query' ? `?${hidden}=1` : ''
  const payload =
    at === 'body' ? { name: hidden, a: { password: hidden } } : at === 'name in a body' ? { [hidden]: 1 } : {}
  return call(method, path.replace('$', at === 'path' ? hidden : 'thing') + query, {
    as,
    headers: {
      ...(at === 'header' && { 'if-match': hidden, 'idempotency-key': hidden, 'x-client': hidden }),
      ...(at === 'request id' && { 'x-request-id': hidden }),
      ...(at === 'credential' && { apikey: hidden }),
    },
    ...(method !== 'GET' && { body: payload }),
    at: { ...inject('tenon'), url },
  })
}

test('secret: at any position of a request: in no log line, audit entry or problem', async () => {
  const hiddens: string[] = []
  const problems: string[] = []
  await fc.assert(
    fc.asyncProperty(route, position, secret, fc.boolean(), async ([method, path], at, hidden, operator) => {
      const reply = await send(method, path, at, hidden, operator ? workspace.operator : workspace.service)
      hiddens.push(hidden)
      if (reply.status >= 400) problems.push(JSON.stringify(reply.body))
    }),
    { numRuns: 150 },
  )
  await own.platform.audit.flush()
  const entries = await asSuperuser<{ entry: string }>('select entry from tenon.audit')
  const kept = [...own.lines, ...problems, ...entries.map(({ entry }) => entry)].join('\n')
  expect(problems.length).toBeGreaterThan(50)
  expect(own.lines.length).toBeGreaterThan(150)
  expect(hiddens.filter((hidden) => kept.includes(hidden))).toEqual([])
  // Control: a harmless word sent the same way is found.
  expect(kept).toContain('/v1/collections/thing/documents')
})
