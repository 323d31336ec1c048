/** OpenAPI calls and authentication of calls, on Temporal against local servers. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

let workspace: TestWorkspace
let fakeServer: FakeServers

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const document =
    (path: string, more: object = {}) =>
    () => ({
      json: {
        openapi: '3.0.3',
        paths: {
          [`${path}/look`]: { get: { operationId: 'look' } },
          [`${path}/change`]: { post: { operationId: 'change' } },
          [`${path}/op`]: { get: { operationId: 'op' } },
          ...more,
        },
      },
    })
  const internal = { servers: [{ url: 'http://169.254.169.254/' }], operationId: 'op' }
  const bomb = Array.from({ length: 30 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}, *a${n}]`)
  fakeServer = await FakeServers.open({
    '/flaky.json': document('/flaky'),
    '/flaky/': () => ({ gone: true }),
    '/secured.json': () => ({
      json: { openapi: '3.1.0', paths: { '/secured': { get: { operationId: 'look' } } } },
    }),
    '/inside.json': () => ({ json: { openapi: '3.1.0', paths: { '/x': { get: internal } } } }),
    '/huge.json': () => ({ text: '{"openapi":"3.1.0"}'.padEnd(52_428_800) }),
    '/circle.json': () => ({ json: { openapi: '3.1.0', paths: { '/x': { $ref: '#/paths/~1x' } } } }),
    '/bomb.yaml': () => ({ text: `openapi: 3.0.0\na0: &a0 [x]\n${bomb.join('\n')}` }),
    '/moved.json': () => ({ status: 302, headers: { location: 'http://169.254.169.254/openapi.json' } }),
    '/closed/echo.json': ({ headers }) =>
      headers.authorization === 'Bearer own' ? document('/echo')() : { status: 401 },
  })
  const body = { workspace_id: workspace.workspaceId, egress: { allow: [fakeServer.host] } }
  expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
})
afterAll(() => fakeServer.close())

/** Publishes the tasks as a flow and runs it once. */
async function runFlow(tasks: string, input: unknown = {}, as: TestWorkspace = workspace): Promise<Reply> {
  const name = unique('f')
  const source = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}\n`
  const headers = { 'content-type': 'application/yaml' }
  const made = await call('POST', `${as.flows}/definitions`, { as: as.operator, body: source, headers })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  const at = `${as.flows}/definitions/${made.body.id}`
  const version = await call('POST', `${at}/versions`, { as: as.operator, body: {} })
  expect(version.status, JSON.stringify(version.body)).toBe(201)
  return call('POST', `${at}/executions`, {
    as: as.operator,
    body: { input },
    headers: { prefer: 'wait=20' },
  })
}

const pets = (rest: string) => `
  - ask:
      call: openapi
      with:
        document: { endpoint: '${fakeServer.origin}/v2/swagger.json' }
        ${rest.replaceAll('\n', '\n        ')}`

const callDocumented = (path: string, operation: string, more = '') => `
  - ask:
      call: openapi
      with: { document: { endpoint: '${fakeServer.origin}${path}' }, operationId: ${operation}${more} }`

describe('call openapi', () => {
  test('operation with a path parameter: found in its document and called', async () => {
    const { body } = await runFlow(pets("operationId: getPetById\nparameters: { petId: '${ .id }' }"), {
      id: 7,
    })
    expect(body).toMatchObject({ status: 'completed', output: { id: 7, name: 'Milou' } })
    expect(fakeServer.requestsTo('/v2/pet/7')).toHaveLength(1)
  })

  test('parameters from the data: sent as a form if the operation wants one', async () => {
    const form = pets("operationId: updatePetWithForm\nparameters: '${ . }'\noutput: response")
    const { body } = await runFlow(form, { petId: 7, name: 'Rex & Co' })
    expect(body.output).toMatchObject({
      statusCode: 200,
      request: { method: 'post', uri: `${fakeServer.origin}/v2/pet/7` },
      content: { body: 'name=Rex%20%26%20Co' },
    })
  })

  test.each([
    ['getPetByID', 'parameters: {}', 'configuration', /Did you mean `getPetById`/],
    ['getPetById', 'parameters: {}', 'validation', /not given: `petId`/],
    ['getPetById', 'parameters: { petId: ".." }', 'validation', /must not be/],
    ['getPetById', 'parameters: { petId: 1, pet: 2 }', 'validation', /no parameter `pet`/],
    ['getPetById', 'parameters: { petId: 999x }', 'communication', /404/],
  ])('%s with %s: faults with the type %s', async (id, rest, type, detail) => {
    const { body } = await runFlow(pets(`operationId: ${id}\n${rest}`))
    expect(body).toMatchObject({ status: 'faulted', error: { instance: '/do/0/ask' } })
    expect(body.error.type).toContain(type)
    expect(body.error.detail).toMatch(detail)
  })

  test('connection lost: an unsafe operation is sent once, a safe one is retried', async () => {
    expect((await runFlow(callDocumented('/flaky.json', 'change'))).body.error.type).toContain(
      'communication',
    )
    expect(fakeServer.requestsTo('/flaky/change')).toHaveLength(1)
    expect((await runFlow(callDocumented('/flaky.json', 'look'))).body.error.type).toContain('communication')
    // Sent once; the client repeats it because the document's connection may have been closed before.
    expect(fakeServer.requestsTo('/flaky/look')).toHaveLength(2)
  })

  test.each([
    ['/inside.json', 'op', /^169.254.169.254:80 is not a public address/],
    ['/huge.json', 'op', /the maximum is \d+/],
    ['/circle.json', 'op', /is circular or too indirect/],
    ['/bomb.yaml', 'op', /not valid YAML/],
    ['/moved.json', 'op', /302/],
  ])('document %s: the call faults', async (path, id, detail) => {
    const { body } = await runFlow(callDocumented(path, id))
    expect(body).toMatchObject({ status: 'faulted', error: { detail: expect.stringMatching(detail) } })
  })

  test('document at an internal address, direct or by redirect: blocked by the egress guard', async () => {
    for (const url of ['http://169.254.169.254/openapi.json', 'http://localhost:1/x', 'http://[::1]:1/x']) {
      const tasks = `  - a: { call: openapi, with: { document: { endpoint: '${url}' }, operationId: op } }`
      expect((await runFlow(tasks)).body.error.code).toBe('egress_refused')
    }
  })

  test('document cached in one workspace: not available to another one that may not reach it', async () => {
    const tasks = pets('operationId: getPetById\nparameters: { petId: 7 }')
    expect((await runFlow(tasks)).body.status).toBe('completed')
    const { body } = await runFlow(tasks, {}, await createTestWorkspace())
    expect(body.error.code).toBe('egress_refused')
  })
})

describe('call authentication', () => {
  const http = (path: string, authentication: string, more = '') => `
  - ask:
      call: http
      with: { method: get, endpoint: { uri: '${fakeServer.origin}${path}', authentication: ${authentication} }${more} }`

  test('basic and digest with expressions: accepted, the execution shows no credential', async () => {
    const basic = '{ basic: { username: \'${ .name }\', password: \'${ "hid" + "den" }\' } }'
    const { body } = await runFlow(http('/basic-auth/ada/hidden', basic, ', output: response'), {
      name: 'ada',
    })
    expect(body.output).toMatchObject({ statusCode: 200, content: { authenticated: true } })
    expect(body.output.request.headers).not.toHaveProperty('authorization')
    const digest = '{ digest: { username: Mufasa, password: Circle of Life } }'
    const digested = await runFlow(http('/digest?algorithm=both', digest))
    expect(digested.body.output).toEqual({ digested: true })
    const refused = await runFlow(http('/digest?no', '{ digest: { username: Mufasa, password: hidden } }'))
    expect(refused.body.error).toMatchObject({ status: 401 })
    const secret = Buffer.from('ada:hidden').toString('base64')
    for (const text of [body, refused.body].map((result) =>
      JSON.stringify(result).replaceAll('/basic-auth/ada/hidden', ''),
    )) {
      expect(text).not.toMatch(/hidden/)
      expect(text).not.toContain(secret)
    }
  })

  test('oauth2 client credentials: one token for the execution, also for the OpenAPI operation', async () => {
    const oauth2 = `{ oauth2: { authority: '${fakeServer.origin}', grant: client_credentials, client: { id: runner, secret: s3cret } } }`
    const before = fakeServer.requestsTo('/oauth2/token').length
    const tasks =
      http('/secured', oauth2) +
      callDocumented('/secured.json', 'look', `, authentication: ${oauth2}`).replace('ask:', 'again:')
    const { body } = await runFlow(tasks)
    expect(body).toMatchObject({ status: 'completed', output: { secured: true } })
    expect(fakeServer.requestsTo('/secured').filter(({ url }) => url === '/secured')).toHaveLength(2)
    expect(fakeServer.requestsTo('/oauth2/token')).toHaveLength(before + 1)
    const wrong = await runFlow(http('/secured', oauth2.replace('s3cret', 'hidden')))
    expect(wrong.body.error).toMatchObject({ type: expect.stringContaining('authentication'), status: 401 })
    expect(JSON.stringify(wrong.body)).not.toContain('hidden')
  })

  test('issuer at an internal address: blocked by the egress guard', async () => {
    const oidc =
      '{ oidc: { authority: http://169.254.169.254, grant: client_credentials, client: { id: a, secret: b } } }'
    expect((await runFlow(http('/secured', oidc))).body.error.code).toBe('egress_refused')
  })

  test('document with credentials of its own: the operation is called without them', async () => {
    const tasks = `
  - ask:
      call: openapi
      with:
        document:
          endpoint: { uri: '${fakeServer.origin}/closed/{name}', authentication: { bearer: { token: own } } }
        operationId: look`
    const { body } = await runFlow(tasks, { name: 'echo.json' })
    expect(body.output).toMatchObject({ url: '/echo/look' })
    expect(body.output.headers).not.toHaveProperty('authorization')
  })
})
