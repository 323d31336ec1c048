/** Messages that cost much to parse, match or check: each is answered, and the event loop of the API stays free. */

import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  callsOf,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  RPC,
  scopesOf,
  tokenFor,
  verifyCalls,
} from '../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type Reply,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { type ApiProcess, startApi } from '../support/stack/api-process.ts'
import { threadMs } from '../support/thread-time.ts'

const PRELOAD = fileURLToPath(new URL('../support/stack/loop-delay.mjs', import.meta.url))
const MODERN = '2026-07-28'
/** CPU time that a message may take without returning to the loop, as a multiple of `referenceMs`. */
const FACTOR = 1.5
/** Members of the object that `referenceMs` writes and reads. */
const REFERENCE_MEMBERS = 100_000

const text = (words: string) => ({ role: 'user', content: { type: 'text', text: words } })
const PROMPTS = {
  remind: {
    arguments: [
      { name: 'customer', values: Array.from({ length: 100 }, (_, n) => `${'a'.repeat(190)}${n}`) },
    ],
    messages: [text('{{customer}}'.repeat(200))],
  },
}
/** Parameters between literals that their values contain. */
const many = (prefix: string, between: string) =>
  `guide://${prefix}${Array.from({ length: 40 }, (_, n) => `{p${n}}`).join(between)}`
const RESOURCES = {
  letters: { uri: `${many('', 'a')}!`, text: 'never' },
  folders: { uri: many('x/', '/'), text: '{{p1}}'.repeat(200) },
  percent: { uri: `${many('y', '%2f')}!`, text: 'never' },
}
const TOOLS = {
  'collections:codes:create': { enabled: true },
  'collections:codes:query': { enabled: true },
  'collections:notes:get': { enabled: true },
  'collections:notes:create': { enabled: true },
}

let api: ApiProcess
let workspace: TestWorkspace
let server: PublishedMcpServer
let agent: Caller
let bucket: string

beforeAll(async () => {
  const started = startApi({ TENON_VALIDATE_RESPONSES: 'false' }, undefined, PRELOAD)
  workspace = await createTestWorkspaceWithStorage()
  const { operator: as, workspaceId: workspace_id } = workspace
  ;({ bucket } = await ok(call('GET', `/v1/workspaces/${workspace_id}`, { as })))
  const schema = { properties: { code: { type: 'string', pattern: '^(a+)+$' } } }
  const declared = { workspace_id, collection: 'codes', store: 'relational', schema, mode: 'enforce' }
  await ok(call('POST', '/v1/schemas', { as, body: declared }))
  const files = { [`buckets:${bucket}:get`]: { enabled: true, name: 'files_get' } }
  server = await publishMcpServer(workspace, 'costly', { ...TOOLS, ...files })
  const body = { tools: { ...TOOLS, ...files }, prompts: PROMPTS, resources: RESOURCES }
  await ok(call('PUT', `${server.base}/curation`, { as, body }))
  await ok(call('POST', `${server.base}/publish`, { as, body: {} }))
  const names = ['codes_create', 'codes_query', 'notes_get', 'notes_create', 'files_get']
  agent = await tokenFor(server, scopesOf(server, ...names))
  api = await started
})
afterAll(() => api?.stop())

type Params = Readonly<Record<string, unknown>>

/** A message as text, so that it may have numbers that JavaScript does not write. Reads streams to their end. */
async function post(body: string, headers: Readonly<Record<string, string>>): Promise<Reply> {
  const type = { 'content-type': 'application/json' }
  const all = { ...agent, ...RPC, ...type, ...headers }
  const response = await fetch(`${api.at.url}${server.path}`, { method: 'POST', headers: all, body })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') === true
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}

const messageOf = (method: string, params: Params) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }).replaceAll(/"raw:([^"]*)"/g, '$1')

/** A request of each generation of the protocol: in the form that is answered without the SDKs, and in one that is not. */
const FORMS: Readonly<Record<string, (method: string, params: Params) => Promise<Reply>>> = {
  '2025-11-25': (method, params) => post(messageOf(method, params), {}),
  '2025-11-25, progress': (method, params) =>
    post(messageOf(method, { ...params, _meta: { progressToken: 1 } }), {}),
  [MODERN]: (method, params) => post(...modern(method, params, {})),
  [`${MODERN}, progress`]: (method, params) => post(...modern(method, params, { progressToken: 1 })),
}

function modern(method: string, params: Params, more: object): [string, Record<string, string>] {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
    ...more,
  }
  const name = String(params['name'] ?? params['uri'] ?? '')
  // Longer headers are refused before anything is parsed.
  const named = name !== '' && name.length < 12_000
  const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...(named && { 'mcp-name': name }) }
  return [messageOf(method, { ...params, _meta }), headers]
}

async function busyMs(): Promise<number> {
  const answer = once(api.process, 'message')
  api.process.send('how long?')
  const [measured] = await answer
  return (measured as { busyMs: number }).busyMs
}

/** Sends messages twice, beside a request of another client. @returns the replies, and the CPU time of the longest turn */
async function measured(send: () => Promise<Reply[]>): Promise<{ replies: Reply[]; ms: number }> {
  const rounds: number[] = []
  let replies: Reply[] = []
  for (let round = 0; round < 2; round += 1) {
    await busyMs()
    const [answers, health] = await Promise.all([send(), call('GET', '/healthz', { at: api.at })])
    rounds.push(await busyMs())
    expect(health.status).toBe(200)
    replies = answers
  }
  return { replies, ms: Math.min(...rounds) }
}

let leastMs: number | undefined
/** CPU time in which this machine writes and reads a large message, as a measure of its speed. */
function referenceMs(): number {
  leastMs ??= Math.min(
    ...Array.from({ length: 3 }, () => {
      const beganMs = threadMs()
      JSON.parse(JSON.stringify(members(REFERENCE_MEMBERS)))
      return threadMs() - beganMs
    }),
  )
  return leastMs
}

/** Compiling and collecting garbage count in a round, but not in every one. */
async function expectAnswers(send: () => Promise<Reply[]>): Promise<Reply[]> {
  const { replies, ms } = await measured(send)
  for (const { status, body } of replies) {
    expect(status, JSON.stringify(body).slice(0, 300)).toBeLessThan(500)
    expect(JSON.stringify(body)).not.toContain('Internal error')
  }
  expect(ms).toBeLessThan(FACTOR * referenceMs())
  return replies
}

/** One after the other, so that no two are in one turn of the loop. */
const inEachForm = (method: string, params: Params) => async () => {
  const replies: Reply[] = []
  for (const send of Object.values(FORMS)) replies.push(await send(method, params))
  return replies
}

/** The message of a response, which may be a stream of one event. */
const messageIn = ({ body }: Reply) =>
  typeof body === 'string' ? JSON.parse(/^data: (.*)$/m.exec(body)?.[1] ?? 'null') : body

const TEXTS: Readonly<Record<string, string>> = {
  braces: '{'.repeat(100_000),
  'encoded slashes': '%2f'.repeat(30_000),
  'broken encoding': '%'.repeat(100_000),
  'a text that no pattern fits': `${'a'.repeat(100_000)}!`,
  'look-alike escapes': '\\u0000'.repeat(15_000),
  'half of a character': '\ud800'.repeat(30_000),
}

test.each([
  ['braces', '{'.repeat(100_000)],
  ['brackets', '['.repeat(100_000)],
  ['members within each other', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`],
  ['a string without an end', `{"jsonrpc":"${'\\\\'.repeat(200_000)}`],
  ['digits', `{"id":${'9'.repeat(200_000)}}`],
  [
    'a prototype',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"__proto__":{"a":1}}}}',
  ],
])('message of %s: refused (T10)', async (_what, body) => {
  const versions = [{}, { 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call' }]
  const replies = await expectAnswers(() => Promise.all(versions.map((headers) => post(body, headers))))
  expect(replies.map(({ status }) => status)).toEqual([400, 400])
})

describe('resources/read (T10)', () => {
  const uris = (): Record<string, string> => ({
    ...Object.fromEntries(Object.entries(TEXTS).map(([what, value]) => [what, `guide://${value}`])),
    'long key': `tenon-object://${bucket}/${'k'.repeat(4_096)}`,
    'key above the limit': `tenon-object://${bucket}/${'k'.repeat(100_000)}`,
    'encoded key': `tenon-object://${bucket}/${'%2f'.repeat(1_300)}`,
    'key of many folders': `tenon-object://${bucket}/${'../'.repeat(1_300)}`,
    'long offset': `tenon-object://${bucket}/k?offset=${'9'.repeat(5_000)}`,
    'long document id': `tenon://notes/${'%2f'.repeat(3_000)}`,
    'long handle': `tenon-result://${'0'.repeat(10_000)}`,
    'template of letters': `guide://${'a'.repeat(10_000)}`,
    'template of folders': `guide://x/${'v/'.repeat(5_000)}`,
    'template of encoded slashes': `guide://y${'%2f'.repeat(3_300)}`,
  })

  test('long and costly URIs: no such resource', async () => {
    for (const [what, uri] of Object.entries(uris())) {
      const replies = await expectAnswers(inEachForm('resources/read', { uri }))
      for (const reply of replies) {
        const { error } = messageIn(reply)
        expect([what, typeof error?.code]).toEqual([what, 'number'])
      }
    }
  })

  test('template that fits: filled in, whatever its values are', async () => {
    const uri = `guide://x/${Array.from({ length: 40 }, () => '%7B%7Bp1%7D%7D'.repeat(10)).join('/')}`
    const replies = await expectAnswers(inEachForm('resources/read', { uri }))
    for (const reply of replies)
      expect(messageIn(reply).result.contents[0].text).toBe('{{p1}}'.repeat(10 * 200))
  })
})

test.each(Object.entries(TEXTS))(
  'completion/complete and prompts/get with %s: answered (T10)',
  async (_what, value) => {
    const ref = { type: 'ref/prompt', name: 'remind' }
    const requests: [string, Params][] = [
      ['completion/complete', { ref, argument: { name: 'customer', value } }],
      ['completion/complete', { ref, argument: { name: value, value: 'a' } }],
      ['completion/complete', { ref: { type: 'ref/prompt', name: value }, argument: { name: 'x', value } }],
      ['completion/complete', { ref: { type: 'ref/resource', uri: value }, argument: { name: 'x', value } }],
      ['prompts/get', { name: value }],
      ['prompts/get', { name: 'remind', arguments: { [value]: 'x' } }],
      ['prompts/get', { name: 'remind', arguments: { customer: value.slice(0, 1_000) } }],
    ]
    for (const [method, params] of requests) await expectAnswers(inEachForm(method, params))
  },
)

test('prompt with many members, or none that is declared: refused in short (T10)', async () => {
  const args = Object.fromEntries(Array.from({ length: 15_000 }, (_, n) => [`m${n}`, 'x']))
  const replies = await expectAnswers(inEachForm('prompts/get', { name: 'remind', arguments: args }))
  for (const reply of replies) {
    const { error } = messageIn(reply)
    expect(error.message).toContain('has no argument m0')
    expect(error.message.length).toBeLessThan(300)
  }
})

const nested = (depth: number) => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
const members = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`m${n}`, n]))

describe('tools/call (T10)', () => {
  test.each<[string, string, Params, RegExp]>([
    ['pattern that backtracks', 'codes_create', { code: `${'a'.repeat(60)}!` }, /code /],
    ['pattern on a long text', 'codes_create', { code: `${'a'.repeat(100_000)}!` }, /code |too many steps/],
    [
      'pattern in conditions',
      'codes_query',
      {
        where: Array.from({ length: 20 }, () => ({
          field: 'code',
          op: 'eq',
          value: `${'a'.repeat(5_000)}!`,
        })),
      },
      /where|too many steps|No/,
    ],
    ['many members', 'codes_create', members(15_000), /unknown|too many steps/],
    ['one long member', 'codes_create', { ['n'.repeat(500_000)]: 1 }, /unknown/],
    ['members that look like pointers', 'codes_create', { ['/~1~0'.repeat(50_000)]: 1 }, /unknown/],
    ['number that is too small', 'codes_query', { limit: `raw:0.${'0'.repeat(100_000)}1` }, /limit/],
    ['deep arguments', 'notes_create', { document: nested(62) }, /deep|nest|validation_failed/],
    [
      'many items',
      'notes_create',
      { document: Array.from({ length: 200_000 }, () => 1) },
      /document must be/,
    ],
    ['encoded slashes', 'files_get', { key: '%2f'.repeat(1_300) }, /key|NoSuchKey|not_found/],
  ])('%s: a tool error in short', async (_what, name, args, expected) => {
    const replies = await expectAnswers(inEachForm('tools/call', { name, arguments: args }))
    for (const reply of replies) {
      const { result } = messageIn(reply)
      expect(result?.isError, JSON.stringify(messageIn(reply)).slice(0, 300)).toBe(true)
      expect(result.content[0].text).toMatch(expected)
      expect(result.content[0].text.length).toBeLessThan(3_000)
    }
  })

  test.each([
    ['without an end', 'notes_get', { id: `raw:${'9'.repeat(100_000)}` }],
    ['that is too large', 'codes_query', { limit: 'raw:1e400' }],
  ])('number %s: refused as in every body', async (_what, name, args) => {
    for (const reply of await expectAnswers(inEachForm('tools/call', { name, arguments: args }))) {
      expect(messageIn(reply)).toMatchObject({ status: 400, code: 'number_unsafe' })
      expect(JSON.stringify(messageIn(reply)).length).toBeLessThan(3_000)
    }
  })

  test('names of tools: no such tool', async () => {
    for (const name of Object.values(TEXTS)) {
      const replies = await expectAnswers(inEachForm('tools/call', { name, arguments: {} }))
      for (const reply of replies) expect(messageIn(reply).error.code).toBeLessThan(0)
    }
  })
})

test('message of many members, in one object or in many: refused before it is converted (T10)', async () => {
  const many = Array.from({ length: 40 }, () => members(1_000))
  for (const document of [members(60_000), many]) {
    const replies = await expectAnswers(
      inEachForm('tools/call', { name: 'notes_create', arguments: { document } }),
    )
    for (const { status, body } of replies)
      expect([status, body.code, body.detail]).toEqual([
        400,
        'body_invalid',
        'The objects of the message have more than 20000 members.',
      ])
  }
})

test('log of these calls: entries are short, and the chain holds (T10)', async () => {
  const entries = await callsOf(server)
  expect(entries.length).toBeGreaterThan(100)
  for (const entry of entries) expect(JSON.stringify(entry).length).toBeLessThan(3_000)
  expect(await verifyCalls(server)).toMatchObject({ ok: true })
})
