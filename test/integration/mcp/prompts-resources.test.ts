/** Prompts, completions and resources of a hosted server, through clients of both protocol versions. */

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
import { type Caller, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const text = (words: string) => ({ role: 'user', content: { type: 'text', text: words } })
const PROMPTS = {
  remind: {
    title: 'Reminder',
    description: 'Writes a reminder.',
    arguments: [
      { name: 'customer', description: 'Who owes.', required: true, values: ['Ann', 'Andy', 'Bob'] },
      { name: 'tone' },
    ],
    messages: [text('Write to {{customer}}{{ tone }}.')],
  },
}
const RESOURCES = {
  policy: { uri: 'guide://refunds', title: 'Refunds', text: 'Five days.' },
  logo: { uri: 'guide://logo', mime_type: 'image/png', blob: 'AAAA' },
  product: { uri: 'guide://products/{id}/text', text: 'Product {{id}}.' },
}
const TOOLS = { 'collections:notes:get': { enabled: true }, 'collections:notes:create': { enabled: true } }

let server: PublishedMcpServer
let as: Caller

const curate = (body: object) =>
  call('PUT', `${server.base}/curation`, { as: server.workspace.operator, body: { tools: TOOLS, ...body } })

beforeAll(async () => {
  server = await publishMcpServer(await createTestWorkspace(), 'texts', TOOLS)
  await ok(curate({ prompts: PROMPTS, resources: RESOURCES }))
  await ok(call('POST', `${server.base}/publish`, { as: server.workspace.operator, body: {} }))
  as = await tokenFor(server, scopesOf(server, 'notes_get', 'notes_create'))
})

describe.each([
  ['legacy', withLegacyClient],
  ['modern', withModernClient],
] as const)('%s client', (_era, connect) => {
  test('prompts: listed, filled in, completed; wrong arguments and names refused', async () => {
    await connect(server.url, as, async (client) => {
      expect((await client.listPrompts()).prompts).toMatchObject([
        {
          name: 'remind',
          title: 'Reminder',
          arguments: [{ name: 'customer', required: true }, { name: 'tone' }],
        },
      ])
      const fill = (args: Record<string, string>, name = 'remind') =>
        client.getPrompt({ name, arguments: args })
      // A value is not searched for placeholders.
      expect((await fill({ customer: '{{tone}}', tone: ' now' })).messages).toEqual([
        text('Write to {{tone}} now.'),
      ])
      await expect(fill({})).rejects.toThrow('The argument customer is required.')
      await expect(fill({ customer: 'a', who: 'b' })).rejects.toThrow(
        'has no argument who; it has customer, tone.',
      )
      for (const name of ['none', '__proto__']) await expect(fill({}, name)).rejects.toThrow('no such prompt')
      const complete = async (value: string, name = 'customer') =>
        (await client.complete({ ref: { type: 'ref/prompt', name: 'remind' }, argument: { name, value } }))
          .completion
      expect(await complete('an')).toMatchObject({ values: ['Ann', 'Andy'], total: 2, hasMore: false })
      expect(await complete('a', 'tone')).toMatchObject({ values: [] })
    })
  })

  test('resources: listed, read, filled in; documents through their tool', async () => {
    await connect(server.url, as, async (client) => {
      const { resources } = await client.listResources()
      expect(resources.map(({ uri }) => uri)).toEqual(['guide://logo', 'guide://refunds'])
      const { resourceTemplates } = await client.listResourceTemplates()
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
        'guide://products/{id}/text',
        'tenon://notes/{id}',
      ])
      const read = async (uri: string) => (await client.readResource({ uri })).contents
      expect(await read('guide://refunds')).toEqual([
        { uri: 'guide://refunds', mimeType: 'text/plain', text: 'Five days.' },
      ])
      expect(await read('guide://logo')).toMatchObject([{ mimeType: 'image/png', blob: 'AAAA' }])
      expect(await read('guide://products/a%20b/text')).toMatchObject([{ text: 'Product a b.' }])
      const { structuredContent } = await client.callTool({
        name: 'notes_create',
        arguments: { document: { text: 'mine' } },
      })
      const { id } = structuredContent as { id: string }
      const [document] = await read(`tenon://notes/${id}`)
      expect(JSON.parse((document as { text: string }).text)).toMatchObject({ id, text: 'mine' })
      for (const uri of [
        'guide://products//text',
        'guide://products/a/b/text',
        'guide://none',
        'tenon://notes/00000000-0000-7000-8000-000000000000',
        `tenon://others/${id}`,
        `tenon://notes/${id}/x`,
        'file:///etc/passwd',
      ])
        await expect(read(uri)).rejects.toThrow('no such resource')
    })
  })
})

test('documents: not readable without the scope of their tool; recorded as calls of it (T15)', async () => {
  const { data } = await ok(call('GET', '/v1/collections/notes/documents', { as: server.workspace.service }))
  const uri = `tenon://notes/${data[0].id}`
  const limited = await tokenFor(server, scopesOf(server, 'notes_create'))
  const refused = await rpc(server.path, limited, 'resources/read', { uri })
  expect(refused.body.error.code).toBe(-32_002)
  const { body } = await rpc(server.path, limited, 'resources/templates/list')
  expect(JSON.stringify(body)).not.toContain('tenon://notes')
  await rpc(server.path, as, 'resources/read', { uri })
  const audit = await ok(
    call('GET', `${server.base}/audit?page[size]=200`, { as: server.workspace.operator }),
  )
  expect(audit.data.filter(({ tool }: { tool: string }) => tool === 'notes_get').length).toBeGreaterThan(0)
})

test.each([
  [{ prompts: { p: { messages: [text('{{who}}')] } } }, '{{who}} is no argument of it'],
  [{ prompts: { p: { messages: [text('a\u200bb')] } } }, 'U+200B'],
  [{ resources: { r: { uri: 'tenon://notes/x', text: '' } } }, 'is reserved for the platform'],
  [{ resources: { r: { uri: 'guide://x' } } }, 'takes `text` or `blob`'],
  [{ resources: { r: { uri: 'guide://x', text: 'a', blob: 'AAAA' } } }, 'takes `text` or `blob`'],
])('draft with %j: refused', async (body, expected) => {
  const reply = await curate(body)
  expect([reply.status, JSON.stringify(reply.body)]).toEqual([400, expect.stringContaining(expected)])
})
