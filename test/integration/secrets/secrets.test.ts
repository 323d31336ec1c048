/** Secrets of flows reach their destination and leave no trace elsewhere. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logTexts, tablesContaining, temporalTexts } from '../../support/clients/leak-scan.ts'
import {
  allowLoopback,
  canary,
  draftFlow,
  postTask,
  publish,
  publishFlow,
  put,
  remove,
  runFlow,
  storeSecret,
} from '../../support/fixtures/secrets.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

const PLAIN = canary()
const ODD = canary(' & "quoted" \\ /+%ü ')
const PASSWORD = canary(':')
const CLIENT = canary('+/')
const PATH = canary()
const TOKEN = canary('token')
/** How a secret of this file begins in any spelling; a name such as that of an alias, `canary`, or `canary-1f` does not. */
const BEGINNING = /canary(?:token|[0-9a-f]{6}|[ :+%])/

let workspace: TestWorkspace
let fakeServer: FakeServers
beforeAll(async () => {
  workspace = await createTestWorkspace()
  const keyed = {
    parameters: [
      { name: 'k', in: 'query', schema: { type: 'string' } },
      { name: 'x-key', in: 'header', schema: { type: 'string' } },
    ],
    requestBody: { content: { 'application/json': { schema: { properties: { secret: {} } } } } },
  }
  fakeServer = await FakeServers.open({
    '/oauth2/token': ({ body }) =>
      body.includes(encodeURIComponent(CLIENT))
        ? { json: { access_token: TOKEN, token_type: 'Bearer', expires_in: 600, said: body } }
        : { status: 401, json: { error: 'invalid_client' } },
    '/keyed.json': () => ({
      json: { openapi: '3.1.0', paths: { '/echo/keyed': { post: { operationId: 'keyed', ...keyed } } } },
    }),
    '/raw': ({ body, headers }) => ({ text: `${headers['authorization']} ${body}` }),
    '/fails': () => ({ status: 500 }),
  })
  await allowLoopback(workspace, fakeServer)
})
afterAll(() => fakeServer.close())

describe('secret storage', () => {
  test('written, listed, replaced, deleted: its value is never shown', async () => {
    const first = await put(workspace, 'kept', PLAIN)
    expect(first.body).toEqual({
      name: 'kept',
      updated_by: expect.any(String),
      created_at: expect.any(String),
      updated_at: expect.any(String),
    })
    expect((await put(workspace, 'kept', { username: 'ada', password: PASSWORD })).status).toBe(200)
    const list = await call('GET', `${workspace.flows}/secrets`, { as: workspace.operator })
    expect(list.body.data.filter(({ name }: { name: string }) => name === 'kept')).toHaveLength(1)
    expect(JSON.stringify(list.body)).not.toContain('canary')
    expect(await tablesContaining([PLAIN, PASSWORD])).toEqual([])
    expect((await remove(workspace, 'kept')).body).toEqual({ name: 'kept', deleted: true, used_by: [] })
    expect((await remove(workspace, 'kept')).status).toBe(404)
  })

  test.each<[unknown, RegExp, string]>([
    ['short', /fewer than 8 characters/, '/value'],
    [{ password: 'short' }, /fewer than 8/, '/value/password'],
    [{ 'a/b': 12_345_678 }, /a string, or an object/, '/value/a~1b'],
    [null, /a string/, '/value'],
    [{}, /no text/, '/value'],
    [['x'.repeat(16_385)], /bytes/, '/value'],
    [Array.from({ length: 17 }, () => 'long enough'), /17|16 texts/, '/value'],
    [[[[[['long enough']]]]], /deeper/, '/value'],
    ['with \u0000 inside', /NUL/, '/value'],
  ])('invalid value %#: refused without repeating it', async (value, detail, pointer) => {
    const { status, body } = await put(workspace, 'refused', value)
    expect(status).toBe(400)
    expect(body.errors[0]).toMatchObject({ detail: expect.stringMatching(detail), pointer })
    expect(JSON.stringify(body)).not.toContain('long enough')
  })

  test('API keys and other workspaces: no access', async () => {
    await storeSecret(workspace, 'mine', PLAIN)
    for (const as of [workspace.service, workspace.anon]) {
      expect((await call('GET', `${workspace.flows}/secrets`, { as })).status).toBe(403)
    }
    const other = await addTestWorkspace(workspace)
    expect((await call('GET', `${other.flows}/secrets`, { as: workspace.operator })).body.data).toEqual([])
    const flow = await draftFlow(other, ['mine'], '  - a: { set: { x: 1 } }')
    expect((await publish(workspace, flow)).status).toBe(422)
  })
})

describe('publication', () => {
  test('unknown secret: refused at its line, with the nearest existing name', async () => {
    await storeSecret(workspace, 'crm_password', PLAIN)
    const flow = await draftFlow(workspace, ['crm_password', 'crm_pasword'], '  - a: { set: { x: 1 } }')
    const { status, body } = await publish(workspace, flow)
    expect(status).toBe(422)
    expect(body.diagnostics).toEqual([
      {
        code: 'unknown_reference',
        message: 'The workspace has no secret `crm_pasword`.',
        line: 2,
        column: 32,
        pointer: '/use/secrets/1',
        hint: expect.stringContaining('Did you mean `crm_password`?'),
      },
    ])
    await storeSecret(workspace, 'crm_pasword', PLAIN)
    expect((await publish(workspace, flow)).status).toBe(201)
    expect((await remove(workspace, 'crm_pasword')).body.used_by).toEqual([flow.split('/').at(-1)])
  })
})

describe('execution with secrets', () => {
  test('secrets sent in every way: received, absent from Temporal, API, audit log, logs and tables', async () => {
    await storeSecret(workspace, 'plain', PLAIN)
    await storeSecret(workspace, 'odd', ODD)
    await storeSecret(workspace, 'account', { username: 'tenon', password: PASSWORD })
    const client = { id: 'runner', secret: CLIENT }
    await storeSecret(workspace, 'client', {
      authority: fakeServer.origin,
      grant: 'client_credentials',
      client,
    })
    await storeSecret(workspace, 'hook', `${fakeServer.origin}/fails/${PATH}?x=1`)
    await call('POST', '/v1/functions', {
      as: workspace.operator,
      body: {
        workspace_id: workspace.workspaceId,
        name: 'echo',
        source: 'export default (input: any) => { console.log(input.key); return [input, input.key.length] }',
      },
    })
    await call('POST', '/v1/functions', {
      as: workspace.operator,
      body: {
        workspace_id: workspace.workspaceId,
        name: 'boom',
        source:
          'export default (input: any) => { console.log(input.key); throw new Error(`no ${input.key}`) }',
      },
    })
    // A flow cannot store a secret; a key whose owner knows the value can, and flows read it.
    const note = { note: ODD, plain: PLAIN }
    await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: note })
    const flow = await publishFlow(
      workspace,
      ['plain', 'odd', 'account', 'client', 'hook'],
      [
        postTask(
          'header',
          `${fakeServer.origin}/echo/header`,
          "headers: { x-key: '${ $secrets.plain }', x-more: '${ \"Key \" + $secrets.plain }' }, query: { k: '${ $secrets.odd }' }, body: { deep: [{ key: '${ $secrets.odd }' }] }, output: response",
        ),
        postTask(
          'bearer',
          `${fakeServer.origin}/raw/bearer`,
          'output: raw, body: \'${ "some words before " + $secrets.plain }\'',
          "{ bearer: { token: '${ $secrets.plain }' } }",
        ),
        postTask(
          'basic',
          `${fakeServer.origin}/echo/basic`,
          'output: content',
          '{ basic: { use: account } }',
        ),
        postTask(
          'form',
          `${fakeServer.origin}/echo/form`,
          'headers: { content-type: application/x-www-form-urlencoded }, body: \'${ "k=" + $secrets.odd + "&p=" + $secrets.account.password }\'',
        ),
        postTask(
          'token',
          `${fakeServer.origin}/echo/token`,
          'output: content',
          '{ oauth2: { use: client } }',
        ),
        `  - path: { call: http, with: { method: get, endpoint: '\${ "${fakeServer.origin}/echo/path/" + $secrets.odd + "?k=" + $secrets.plain }' } }`,
        `  - keyed:\n      call: openapi\n      with: { document: { endpoint: '${fakeServer.origin}/keyed.json?by=document' }, operationId: keyed, parameters: { k: '\${ $secrets.odd }', x-key: '\${ $secrets.plain }', secret: '\${ $secrets.odd }' } }`,
        '  - listed: { call: collection.list, with: { name: notes } }',
        "  - got: { call: collection.get, with: { name: notes, id: '${ .data[0].id }' } }",
        "  - asked: { call: function.invoke, with: { id: echo, input: { key: '${ $secrets.odd }' } } }",
        "  - again: { call: function.invoke, with: { id: echo, input: { key: '${ .[0].key }' } }, output: { as: '${ .[1] }' }, export: { as: '${ { length: . } }' } }",
        "  - thrown: { try: [{ boom: { call: function.invoke, with: { id: boom, input: { key: '${ $secrets.plain }' } } } }], catch: { as: e, do: [{ caught: { set: { error: '${ $e }' } } }] } }",
        "  - told: { emit: { event: { with: { type: told, data: { key: '${ $secrets.plain }' } } } } }",
        "  - hooked: { try: [{ hook: { call: http, with: { method: post, endpoint: '${ $secrets.hook }' } } }], catch: { as: e, do: [{ seen: { set: { error: '${ $e }', harmless: harmlessword } } }] } }",
        "  - missed: { call: collection.get, with: { name: notes, id: '${ $secrets.plain }' } }",
      ].join('\n'),
    )
    const body = await runFlow(workspace, flow)
    expect(body, JSON.stringify(body)).toMatchObject({
      status: 'faulted',
      error: { instance: '/do/14/missed' },
    })

    const [header] = fakeServer.requestsTo('/echo/header')
    expect(header?.headers).toMatchObject({ 'x-key': PLAIN, 'x-more': `Key ${PLAIN}` })
    expect(new URL(header?.url ?? '', 'http://x').searchParams.get('k')).toBe(ODD)
    expect(JSON.parse(header?.body ?? '')).toEqual({ deep: [{ key: ODD }] })
    expect(fakeServer.requestsTo('/raw/bearer')[0]?.headers.authorization).toBe(`Bearer ${PLAIN}`)
    const basic = Buffer.from(`tenon:${PASSWORD}`).toString('base64')
    expect(fakeServer.requestsTo('/echo/basic')[0]?.headers.authorization).toBe(`Basic ${basic}`)
    const form = new URLSearchParams(fakeServer.requestsTo('/echo/form')[0]?.body)
    expect([form.get('k'), form.get('p')]).toEqual([ODD, PASSWORD])
    expect(fakeServer.requestsTo('/echo/token')[0]?.headers.authorization).toBe(`Bearer ${TOKEN}`)
    const path = new URL(fakeServer.requestsTo('/echo/path')[0]?.url ?? '', 'http://x')
    expect([
      decodeURIComponent(path.pathname.slice('/echo/path/'.length)),
      path.searchParams.get('k'),
    ]).toEqual([ODD, PLAIN])
    const [keyed] = fakeServer.requestsTo('/echo/keyed')
    expect(new URL(keyed?.url ?? '', 'http://x').searchParams.get('k')).toBe(ODD)
    expect(keyed?.headers['x-key']).toBe(PLAIN)
    expect(JSON.parse(keyed?.body ?? '')).toEqual({ secret: ODD })
    expect(fakeServer.requestsTo(`/fails/${PATH}?x=1`)).toHaveLength(1)

    const values = [PLAIN, ODD, PASSWORD, CLIENT, PATH, TOKEN]
    const spellings = values.flatMap((value) => [
      value,
      encodeURIComponent(value),
      new URLSearchParams([['', value]]).toString().slice(1),
      JSON.stringify(value).slice(1, -1),
    ])
    const forbidden = [...spellings, basic, Buffer.from(`Bearer ${PLAIN}`).toString('base64')]
    expect(spellings.filter((one) => !BEGINNING.test(one))).toEqual([])
    const traces = {
      temporal: await temporalTexts(workspace),
      execution: JSON.stringify(body),
      audit: JSON.stringify(
        (
          await call('GET', `/v1/audit?tenant_id=${workspace.tenantId}&page[size]=200`, {
            as: workspace.operator,
          })
        ).body,
      ),
      logs: await logTexts(),
    }
    for (const [source, text] of Object.entries(traces)) {
      // Logs may show names of other tests that begin with the word.
      const beginnings = text.match(source === 'logs' ? BEGINNING : /canary/) ?? []
      expect([...forbidden.filter((one) => text.includes(one)), ...beginnings], source).toEqual([])
    }
    // Verifies the search: text next to the secrets is found.
    expect(traces.temporal).toContain('harmlessword')
    expect(traces.temporal).toContain('some words before')
    const tables = await tablesContaining([...spellings, basic])
    expect(tables.filter((name) => name !== 'outbox')).toEqual(['documents'])
    // Searches every table and every log file of all tests.
  })
})
