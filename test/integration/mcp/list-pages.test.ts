/** Pages of prompts, resources and templates, through clients of both protocol versions, and cursors that no list has given. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import { modernRpc } from '../../support/clients/mcp-modern.ts'
import { type Caller, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const TOOLS = { 'collections:notes:get': { enabled: true } }
const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index).padStart(3, '0'))
const named = (count: number, value: (n: string) => object) =>
  Object.fromEntries(numbers(count).map((n) => [`e${n}`, value(n)]))
const PROMPTS = named(130, (n) => ({ messages: [{ role: 'user', content: { type: 'text', text: n } }] }))
const RESOURCES = {
  ...named(230, (n) => ({ uri: `guide://pages/${n}`, text: n })),
  ...Object.fromEntries(numbers(119).map((n) => [`t${n}`, { uri: `guide://${n}/{id}`, text: n }])),
}
/** The lists with the sizes of their pages; the collection adds one template. */
const LISTS = [
  ['prompts/list', 'prompts', [100, 30]],
  ['resources/list', 'resources', [100, 100, 30]],
  ['resources/templates/list', 'resourceTemplates', [100, 20]],
] as const

let server: PublishedMcpServer
let as: Caller

const publishWith = async (body: object) => {
  const { operator } = server.workspace
  await ok(call('PUT', `${server.base}/curation`, { as: operator, body: { tools: TOOLS, ...body } }))
  await ok(call('POST', `${server.base}/publish`, { as: operator, body: {} }))
}

beforeAll(async () => {
  server = await publishMcpServer(await createTestWorkspace(), 'pages', TOOLS)
  await publishWith({ prompts: PROMPTS, resources: RESOURCES })
  as = await tokenFor(server, scopesOf(server, 'notes_get'))
})

type Answer = { result?: Record<string, never>; error?: { code: number; message: string } }

const ERAS = [
  [
    '2025-11-25',
    async (method: string, params?: object) => (await rpc(server.path, as, method, params)).body,
  ],
  [
    '2026-07-28',
    async (method: string, params: object = {}) =>
      (await modernRpc(server.path, as, method, { ...params })).message,
  ],
] as [string, (method: string, params?: object) => Promise<Answer>][]

interface Entry {
  readonly name: string
}

describe.each(ERAS)('version %s', (_version, ask) => {
  test.each(LISTS)('%s: every entry once, in pages of 100', async (method, member, sizes) => {
    const pages: Entry[][] = []
    let cursor: string | undefined
    do {
      const { result } = await ask(method, cursor === undefined ? {} : { cursor })
      pages.push(result?.[member] as unknown as Entry[])
      cursor = result?.['nextCursor']
    } while (cursor !== undefined)
    expect(pages.map(({ length }) => length)).toEqual(sizes)
    const names = pages.flat().map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  })

  test('cursor of another list, of a tool list, forged, cut, or no text: -32602, and nothing of the list', async () => {
    const { result } = await ask('resources/list')
    const cursor = String(result?.['nextCursor'])
    const [digest] = cursor.split('.')
    const wrong: [string, unknown][] = [
      ['prompts/list', cursor],
      ['resources/templates/list', cursor],
      ['tools/list', cursor],
      ['tools/list', ''],
      ...[
        '',
        '0',
        'MTAw',
        `${digest}.0`,
        `${digest}.1`,
        `${digest}.300`,
        `${digest}.-100`,
        `${digest}.1e2`,
      ].map((text): [string, unknown] => ['resources/list', text]),
      ['resources/list', cursor.slice(0, -1)],
      ['resources/list', `${cursor} `],
      ['resources/list', `${digest}.200\0`],
      ['resources/list', '__proto__'],
      ['resources/list', "' or 1=1 --"],
      ['resources/list', 'x'.repeat(500_000)],
      ...[100, null, {}, [cursor], true].map((value): [string, unknown] => ['resources/list', value]),
    ]
    for (const [method, value] of wrong) {
      const { result: answered, error } = await ask(method, { cursor: value })
      const label = String(JSON.stringify(value)).slice(0, 80)
      expect([method, label, answered, error?.code]).toEqual([method, label, undefined, -32_602])
      expect(error?.message.length, label).toBeLessThan(200)
    }
  })
})

test.each([
  ['legacy', withLegacyClient],
  ['modern', withModernClient],
] as const)('%s client: walks all lists to their end', async (_era, connect) => {
  await connect(server.url, as, async (client) => {
    /** The client of the second generation returns all pages at once. */
    const walk = async (
      list: (params?: { cursor: string }) => Promise<{ nextCursor?: string | undefined }>,
    ) => {
      const pages = [await list()]
      for (let next = pages[0]?.nextCursor; next !== undefined; next = pages.at(-1)?.nextCursor)
        pages.push(await list({ cursor: next }))
      return pages as never[]
    }
    const resources = await walk((params) => client.listResources(params))
    expect(resources.flatMap(({ resources: some }) => some).map(({ uri }) => uri)).toEqual(
      numbers(230).map((n) => `guide://pages/${n}`),
    )
    const templates = await walk((params) => client.listResourceTemplates(params))
    expect(templates.flatMap(({ resourceTemplates }) => resourceTemplates)).toHaveLength(120)
    const prompts = await walk((params) => client.listPrompts(params))
    expect(prompts.flatMap(({ prompts: some }) => some)).toHaveLength(130)
  })
})

test('list that changes between two pages: its cursor is refused; of an unchanged list, it goes on in another version', async () => {
  const cursorOf = async (method: string) =>
    String((await rpc(server.path, as, method)).body.result.nextCursor)
  const [resources, prompts] = [await cursorOf('resources/list'), await cursorOf('prompts/list')]
  const { e000: _first, ...others } = RESOURCES as Record<string, unknown>
  await publishWith({ prompts: PROMPTS, resources: others })
  const renewed = await tokenFor(server, scopesOf(server, 'notes_get'))
  const stale = await rpc(server.path, renewed, 'resources/list', { cursor: resources })
  expect(stale.body.error).toMatchObject({
    code: -32_602,
    message: expect.stringContaining('Begin without it'),
  })
  const next = await rpc(server.path, renewed, 'prompts/list', { cursor: prompts })
  expect(next.body.result.prompts).toHaveLength(30)
})

test('more than 500 resources or 200 prompts: refused', async () => {
  for (const body of [
    { resources: named(501, (n) => ({ uri: `guide://pages/${n}`, text: n })) },
    { prompts: named(201, () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'x' } }] })) },
  ]) {
    const reply = await call('PUT', `${server.base}/curation`, {
      as: server.workspace.operator,
      body: { tools: TOOLS, ...body },
    })
    expect(reply.status).toBe(400)
  }
})
