/** The consent page: each tool with its effect, those of one collection together, nothing that the server does not offer. */

import { beforeAll, expect, test } from 'vitest'
import {
  addAccount,
  addClient,
  authorization,
  Browser,
  inWorkspace,
  REDIRECT,
  type TestAccount,
} from '../support/clients/browser.ts'
import {
  createMcpWorkspace,
  NOTES,
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
} from '../support/clients/mcp.ts'
import { call, type TestWorkspace } from '../support/fixtures/tenants.ts'

const LIST = { 'collections:notes:list': { enabled: true } }

let workspace: TestWorkspace
let person: TestAccount
let clientId: string
beforeAll(async () => {
  workspace = await createMcpWorkspace()
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  clientId = await addClient(workspace.operator)
})

const TITLE = '<img src=x onerror=alert(1)> & "List"'

async function pageFor(mcpServer: PublishedMcpServer, scope: string, client = clientId): Promise<string> {
  const browser = new Browser(REDIRECT)
  const page = await browser.open(authorization(client, { resource: mcpServer.url, scope }).url)
  const { tenant, email, password } = person
  return (await browser.submit(page, { action: 'login', tenant, email, password })).html
}

test('tools of three effects: each with escaped title and effect', async () => {
  const mcpServer = await publishMcpServer(workspace, 'words', {
    'collections:notes:list': { enabled: true, title: TITLE, scope: 'notes' },
    'collections:notes:create': { enabled: true, scope: 'notes' },
    'collections:notes:delete': { enabled: true, scope: 'notes' },
    'collections:notes:get': { enabled: true },
  })
  // Its title is suspect.
  await ok(call('POST', `${mcpServer.base}/versions/1/approve`, { as: workspace.operator, body: {} }))
  const html = await pageFor(mcpServer, scopesOf(mcpServer, 'notes'))
  expect(html).toContain('&lt;img src=x onerror=alert(1)&gt; &amp; &quot;List&quot;')
  expect(html).not.toContain('<img')
  const text = html.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ')
  expect(text).toMatch(/Delete a document of notes.{1,5}changes or deletes data/)
  expect(text).toMatch(/Create a document in notes.{1,5}adds data/)
  expect(text).toMatch(/List&quot;.{1,5}reads data/)
  expect(text).toContain('Server words')
  // Strongest effect first; tools not requested are not shown.
  expect(text.indexOf('Delete a document')).toBeLessThan(text.indexOf('Create a document'))
  expect(text).not.toContain('Read a document')
})

test('scopes of one collection: together, by what they do to it', async () => {
  const all = ['list', 'get', 'create', 'update', 'delete']
  const mcpServer = await publishMcpServer(workspace, 'grouped', NOTES)
  const html = await pageFor(mcpServer, scopesOf(mcpServer, ...all.map((verb) => `notes_${verb}`)))
  const items = html.split('<li>').slice(1)
  expect(items.map((item) => /<p><b>([^<]*)/.exec(item)?.[1])).toEqual([
    'Change or delete notes',
    'Add to notes',
    'Read notes',
  ])
  expect(items[2]).toMatch(/notes_get.*notes_list|notes_list.*notes_get/)
})

test('group: its tools together, by what they do; its title cannot hide the effect', async () => {
  const mcpServer = await publishMcpServer(workspace, 'titled', NOTES)
  const groups = [
    { name: 'harmless', title: 'Only reads & lists', tools: ['notes_get', 'notes_list', 'notes_delete'] },
  ]
  const as = workspace.operator
  await ok(call('PUT', `${mcpServer.base}/curation`, { as, body: { tools: NOTES, groups } }))
  await ok(call('POST', `${mcpServer.base}/publish`, { as, body: {} }))
  const all = ['list', 'get', 'create', 'update', 'delete'].map((verb) => `notes_${verb}`)
  const items = (await pageFor(mcpServer, scopesOf(mcpServer, ...all))).split('<li>').slice(1)
  expect(items.map((item) => /<p><b>([^<]*)/.exec(item)?.[1])).toEqual([
    'Change or delete notes',
    'Only reads &amp; lists: change or delete',
    'Add to notes',
    'Only reads &amp; lists: read',
  ])
})

test('name of a client that registered itself: refused with a word of two scripts, warned of with words of two', async () => {
  const register = (client_name: string) =>
    call('POST', '/auth/register', { body: { client_name, redirect_uris: [REDIRECT] } })
  const refused = await register('Cl\u0430ude')
  expect([refused.status, refused.body]).toEqual([
    400,
    {
      error: 'invalid_client_metadata',
      error_description: 'client_name has letters of several scripts in one word',
    },
  ])
  const mcpServer = await publishMcpServer(workspace, 'named', LIST)
  const scope = scopesOf(mcpServer, 'notes_list')
  for (const [name, isWarned] of [
    ['\u0410\u0421\u041c\u0415 Agent', true],
    ['\u0410\u0433\u0435\u043d\u0442', false],
    ['ACME Agent', false],
  ] as const) {
    const { client_id } = await ok(register(name))
    const html = await pageFor(mcpServer, scope, client_id)
    expect(html).toContain('Its name is not verified.')
    expect([name, html.includes('letters of several scripts')]).toEqual([name, isWarned])
  }
})

test('scope that the server does not offer: not shown', async () => {
  const mcpServer = await publishMcpServer(workspace, 'unknown', LIST)
  const html = await pageFor(mcpServer, `${scopesOf(mcpServer, 'notes_list')} mcp:unknown:trust_me please`)
  expect(html).toContain('List notes')
  expect(html).not.toMatch(/trust_me|please/)
})
