// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Flow compiler through the API: facts of a valid flow, diagnostics with their pages, authentication of calls. */

import { createServer, type Server } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Connection, Client as TemporalClient } from '@temporalio/client'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { DIAGNOSTICS } from '../../../flows-dsl/diagnostics/catalogue.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let echo: Server
let base: string
const requestedUrls: (string | undefined)[] = []

beforeAll(async () => {
  workspace = await createTestWorkspace()
  const port = inject('tenon').echoPorts[1] ?? 0
  base = `http://127.0.0.1:${port}`
  echo = createServer((request, response) => {
    requestedUrls.push(request.url)
    response.writeHead(200, { 'content-type': 'application/json' })
    if (request.url === '/deep') return response.end(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)
    return response.end(JSON.stringify({ from: request.headers.authorization ?? null }))
  })
  await new Promise<void>((done) => echo.listen(port, '127.0.0.1', done))
})
afterAll(() => new Promise((done) => echo.close(done)))

const flow = (name: string, ...lines: readonly string[]) =>
  [`document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }`, ...lines].join('\n')

const post = (path: string, body: unknown, headers = {}) =>
  call('POST', `${workspace.flows}/${path}`, { as: workspace.operator, body, headers })

async function runFlow(source: string, input: unknown = {}) {
  const { body } = await post('definitions', { source })
  const { status } = await post(`definitions/${body.id}/versions`, {})
  expect(status).toBe(201)
  return (await post(`definitions/${body.id}/executions`, { input }, { prefer: 'wait=20' })).body
}

const storeSecret = (name: string) =>
  call('PUT', `${workspace.flows}/secrets/${name}`, {
    as: workspace.operator,
    body: { value: 'a secret of some length' },
  })

test('secret or sub-flow that the workspace lacks: validation reports both, publishing warns of the flow', async () => {
  const source = flow(
    'refers',
    'use: { secrets: [unheard] }',
    'do:',
    '  - a: { run: { workflow: { namespace: test, name: nowhere } } }',
    '  - b: { run: { workflow: { namespace: test, name: refers } } }',
  )
  const { body } = await post('validate', { source })
  const messagesOf = (all: { message: string; line: number }[]) =>
    all.map(({ message, line }) => `${line} ${message}`)
  expect(body.valid).toBe(false)
  expect(messagesOf(body.diagnostics)).toEqual(['2 The workspace has no secret `unheard`.'])
  expect(messagesOf(body.warnings)).toEqual(['4 The workspace has no published flow test/nowhere.'])
  await storeSecret('unheard')
  const { id } = (await post('definitions', { source })).body
  const published = await post(`definitions/${id}/versions`, {})
  expect([published.status, messagesOf(published.body.warnings)]).toEqual([201, messagesOf(body.warnings)])
})

test('input of a function that its schema refuses: validation and publishing warn, with the path; expressions and aliases are left alone', async () => {
  const schema = {
    type: 'object',
    properties: {
      sku: { type: 'string' },
      count: { type: 'integer' },
      at: { type: 'object', required: ['x'] },
    },
    required: ['sku'],
    additionalProperties: false,
  }
  const runs = new FunctionRuns(workspace)
  await runs.deploy('old', `export const input = ${JSON.stringify(schema)}\nexport default () => 1`)
  await runs.deploy('old', 'export default () => 1')
  await runs.deploy('quote', `export const input = ${JSON.stringify(schema)}\nexport default () => 1`)
  const invoke = (name: string, args: string) => `  - ${name}: { call: function.invoke, with: { ${args} } }`
  const source = flow(
    'quotes',
    'do:',
    invoke('good', 'id: quote, input: { sku: A, count: 1 }'),
    invoke('wrong', 'id: quote, input: { sku: A, count: many, cuont: 1, at: {} }'),
    invoke('empty', 'id: quote'),
    invoke('text', 'id: quote, input: A'),
    invoke('computed', "id: quote, input: { sku: '${ .sku }', count: many }"),
    invoke('aliased', 'id: quote@live, input: {}'),
    invoke('unchecked', 'id: old, input: {}'),
    invoke('pinned', 'id: old, version: 1, input: {}'),
    invoke('unknown', 'id: nowhere, input: {}'),
  )
  const { body } = await post('validate', { source })
  expect([body.valid, body.diagnostics]).toEqual([true, []])
  const place = ({ code, line, column, pointer }: Record<string, unknown>) =>
    `${code} ${line}:${column} ${pointer}`
  expect(body.warnings.map(place)).toEqual([
    'value_invalid 4:73 /do/1/wrong/with/input/count',
    'unknown_argument 4:86 /do/1/wrong/with/input/cuont',
    'missing_argument 4:96 /do/1/wrong/with/input/at',
    'missing_argument 5:5 /do/2/empty/with/input',
    'value_invalid 6:55 /do/3/text/with/input',
    'missing_argument 10:67 /do/7/pinned/with/input',
  ])
  expect(body.warnings[1]).toMatchObject({
    message: 'The input schema of `quote` (version 1) refuses the call: /cuont is not allowed.',
    hint: 'Did you mean count?',
  })
  const { id } = (await post('definitions', { source })).body
  const published = await post(`definitions/${id}/versions`, {})
  expect([published.status, published.body.warnings]).toEqual([201, body.warnings])
})

test('input of a function whose check takes too many steps: no warning, and the flow is published', async () => {
  const deep = (n: number): object => (n === 0 ? { type: 'string' } : { anyOf: Array(6).fill(deep(n - 1)) })
  const runs = new FunctionRuns(workspace)
  const schema = JSON.stringify({ type: 'object', properties: { all: { type: 'array', items: deep(3) } } })
  await runs.deploy('costly', `export const input = ${schema}\nexport default () => 1`)
  const input = JSON.stringify({ all: Array.from({ length: 500 }, (_, n) => n) })
  const calls = Array.from(
    { length: 4 },
    (_, n) => `  - a${n}: { call: function.invoke, with: { id: costly, input: ${input} } }`,
  )
  const { body } = await post('validate', { source: flow('costs', 'do:', ...calls) })
  expect([body.diagnostics, body.warnings]).toEqual([[], []])
})

test('validate a valid flow: returns its facts', async () => {
  const source = flow(
    'known',
    'use: { secrets: [key], functions: { ask: { call: http, with: { method: get, endpoint: "https://x.test" } } } }',
    'do:',
    '  - each: { for: { in: .items }, do: [{ a: { call: ask } }] }',
    '  - both: { fork: { branches: [{ b: { wait: PT1S } }, { c: { set: { k: "${ $secrets.key }" } } }] } }',
  )
  await storeSecret('key')
  const { body } = await post('validate', { source })
  expect(body).toEqual({
    valid: true,
    diagnostics: [],
    warnings: [],
    facts: {
      functions: ['http'],
      secrets: ['key'],
      kinds: ['call', 'do', 'for', 'fork', 'set', 'wait'],
      events: { fixed: 10, per_item: 1 },
      fan_out: 2,
    },
  })
})

test('estimated history events: close to the history of an actual execution', async () => {
  const lines = [
    'use: { functions: { keep: { call: collection.create, with: { name: kept, document: { a: 1 } } } } }',
    'do:',
    '  - a: { call: keep }',
    '  - b: { set: { c: 1 } }',
    '  - d: { wait: { milliseconds: 20 } }',
    '  - e: { for: { in: [{}, {}, {}] }, do: [{ f: { call: keep } }] }',
  ]
  const source = flow('estimated', ...lines)
  const { facts } = (await post('validate', { source })).body
  const run = await runFlow(source)
  expect(run.status).toBe('completed')
  const connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const handle = new TemporalClient({ connection }).workflow.getHandle(run.workflow_id)
    const { historyLength } = await handle.describe()
    expect(facts.events.per_item).toBe(0)
    expect(historyLength / facts.events.fixed).toBeGreaterThan(0.7)
    expect(historyLength / facts.events.fixed).toBeLessThan(1.4)
  } finally {
    await connection.close()
  }
})

test('faulty flow validated, saved or published: the same diagnostics, each with a documentation page', async () => {
  const source = flow('faulty', 'do: [{ a: { call: colection.get } }]')
  const { body } = await post('validate', { source })
  expect(body).toMatchObject({
    valid: false,
    diagnostics: [{ code: 'unknown_function', line: 2, column: 19 }],
  })
  expect(body.facts).toBeUndefined()
  const draft = await post('definitions', { name: 'faulty', source })
  expect(draft.body.diagnostics).toEqual(body.diagnostics)
  const refused = await post(`definitions/${draft.body.id}/versions`, {})
  expect(refused.status).toBe(422)
  expect(refused.body.diagnostics).toEqual(body.diagnostics)
  const page = await call('GET', body.diagnostics[0].docs)
  expect(page.status).toBe(200)
  expect(String(page.body)).toContain(DIAGNOSTICS.unknown_function.explanation)
  expect((await call('GET', '/docs/flows/diagnostics/nothing')).status).toBe(404)
})

test('flow with a warning validated, saved or published: the same warnings, and each succeeds', async () => {
  const source = flow('warned', 'do: [{ a: { wait: PT1S, then: end } }, { b: { wait: PT1S } }]')
  const { body } = await post('validate', { source })
  expect(body).toMatchObject({
    valid: true,
    diagnostics: [],
    warnings: [{ code: 'task_unreachable', line: 2, column: 42, pointer: '/do/1/b' }],
    facts: {},
  })
  const draft = await post('definitions', { source })
  expect([draft.status, draft.body]).toMatchObject([
    201,
    { valid: true, diagnostics: [], warnings: body.warnings },
  ])
  const published = await post(`definitions/${draft.body.id}/versions`, {})
  expect([published.status, published.body.warnings]).toEqual([201, body.warnings])
  const path = `${workspace.flows}/definitions/${draft.body.id}`
  const replaced = await call('PUT', path, { as: workspace.operator, body: { source } })
  expect([replaced.status, replaced.body.warnings]).toEqual([200, body.warnings])
  const page = await call('GET', body.warnings[0].docs)
  expect(String(page.body)).toContain(DIAGNOSTICS.task_unreachable.explanation)
})

test('tool flow_validate of the platform server: returns the same result as the API', async () => {
  const source = flow('faulty', 'do: [{ a: { call: colection.get } }, { b: { wait: soon } }]')
  const url = new URL(`${inject('tenon').url}/v1/mcp/platform/mcp`)
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: workspace.operator } })
  await client.connect(transport as Parameters<typeof client.connect>[0])
  const { body } = await post('validate', { source })
  expect(body.diagnostics).toHaveLength(2)
  try {
    const args = { workspace_id: workspace.workspaceId, source }
    const result = await client.callTool({ name: 'flow_validate', arguments: args })
    const [{ text }] = result.content as [{ text: string }]
    expect(JSON.parse(text)).toEqual(body)
  } finally {
    await client.close()
  }
})

test.each([
  ['basic', '{ basic: { username: ada, password: "${ .word }" } }', `Basic ${btoa('ada:w:1')}`],
  ['bearer', '{ use: known }', 'Bearer w:1'],
])('HTTP call with %s authentication: sends the credential', async (name, authentication, header) => {
  const source = flow(
    `by-${name}`,
    'use: { authentications: { known: { bearer: { token: "${ .word }" } } } }',
    `do: [{ a: { call: http, with: { method: get, endpoint: { uri: '${base}/', authentication: ${authentication} } } } }]`,
  )
  expect(await runFlow(source, { word: 'w:1' })).toMatchObject({
    status: 'completed',
    output: { from: header },
  })
})

test('HTTP call whose credential is missing: faults without a request', async () => {
  const authentication = '{ bearer: { token: "${ .nothing }" } }'
  const source = flow(
    'not-authenticated',
    `do: [{ a: { call: http, with: { method: get, endpoint: { uri: '${base}/nothing', authentication: ${authentication} } } } }]`,
  )
  const { status, error } = await runFlow(source)
  expect([status, error.instance]).toEqual(['faulted', '/do/0/a'])
  expect(requestedUrls).not.toContain('/nothing')
})

test('flow with an undefined secret: valid, can be simulated, refused at publication', async () => {
  const source = flow(
    'secretive',
    'use: { secrets: [token] }',
    'do: [{ a: { set: { with: \'${ "Bearer " + $secrets.token }\' } } }]',
  )
  await storeSecret('token')
  expect((await post('validate', { source })).body).toMatchObject({
    valid: true,
    facts: { secrets: ['token'] },
  })
  expect((await post('simulate', { source })).body).toMatchObject({
    output: { with: 'Bearer secret token' },
  })
  await post('definitions', { source: source.replaceAll('token', 'missing') })
  expect(await post('definitions/secretive/versions', {})).toMatchObject({
    status: 422,
    body: {
      code: 'flow_invalid',
      diagnostics: [{ code: 'unknown_reference', line: 2, pointer: '/use/secrets/0' }],
    },
  })
})

test('HTTP response nested too deeply: the call faults, the execution ends', async () => {
  const source = flow('deep', `do: [{ a: { call: http, with: { method: get, endpoint: '${base}/deep' } } }]`)
  expect(await runFlow(source)).toMatchObject({
    status: 'faulted',
    error: { detail: expect.stringContaining('nested deeper'), instance: '/do/0/a' },
  })
})
