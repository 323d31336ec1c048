/** Consent covers the tools that were shown, whatever is published under the same scope later. */

import { beforeAll, describe, expect, test } from 'vitest'
import { entriesOfWorkspace } from '../support/clients/audit.ts'
import {
  addAccount,
  addClient,
  agentOf,
  authorization,
  Browser,
  bearer,
  claimsOf,
  exchange,
  type Flow,
  inWorkspace,
  REDIRECT,
  refresh,
  type Seen,
  type TestAccount,
  tokensOf,
} from '../support/clients/browser.ts'
import {
  askToken,
  callTool,
  createMcpWorkspace,
  ok,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
} from '../support/clients/mcp.ts'
import { connectModern } from '../support/clients/mcp-sdk.ts'
import { type Caller, call, type TestWorkspace, tokenOf } from '../support/fixtures/tenants.ts'

const LIST = { 'collections:notes:list': { enabled: true } }
const WIDER = { ...LIST, 'collections:notes:delete': { enabled: true, scope: 'notes_list' } }
/** Not on loopback, so that a live session with a consent is not asked again (RFC 8252 §8.6). */
const WEB = 'https://app.example/callback'

let workspace: TestWorkspace
let person: TestAccount
let clientId: string
let webClient: string
beforeAll(async () => {
  workspace = await createMcpWorkspace()
  person = await addAccount(workspace.operator, { role: 'service', ...inWorkspace(workspace) })
  clientId = await addClient(workspace.operator)
  webClient = await addClient(workspace.operator, { redirect_uris: [WEB] })
})

const approve = (mcpServer: PublishedMcpServer, version: number, as: Caller = workspace.operator) =>
  call('POST', `${mcpServer.base}/versions/${version}/approve`, { as, body: {} })
const activate = (mcpServer: PublishedMcpServer, version: number) =>
  call('POST', `${mcpServer.base}/versions/${version}/activate`, { as: workspace.operator, body: {} })

const accessTo = (mcpServer: PublishedMcpServer, ...tools: string[]) => ({
  resource: mcpServer.url,
  scope: scopesOf(mcpServer, ...tools),
})

async function login(browser: Browser, flow: Flow): Promise<Seen> {
  const page = await browser.open(flow.url)
  const { tenant, email, password } = person
  return browser.submit(page, { action: 'login', tenant, email, password })
}

/** The tools that the token may call; people are shown the others as well. */
async function toolNames(as: Caller, mcpServer: PublishedMcpServer): Promise<string[]> {
  const { body } = await rpc(mcpServer.path, as, 'tools/list')
  const tools: { name: string; description: string }[] = body.result.tools
  return tools.filter(({ description }) => !description.includes('Needs the scope')).map(({ name }) => name)
}

const expectRefused = async (as: Caller, mcpServer: PublishedMcpServer, tool: string, scope: string) => {
  const { status, body, headers } = await callTool(mcpServer.path, as, tool, { id: 'x' })
  expect([status, body.code]).toEqual([403, 'insufficient_scope'])
  const challenge = headers.get('www-authenticate')
  expect(challenge).toContain('error="insufficient_scope"')
  const plain = scopesOf(mcpServer, scope)
  expect(challenge).toMatch(new RegExp(`scope="${plain} ${plain}@[0-9]+"`))
  expect(challenge).toContain('resource_metadata="')
}

/** By default, a client that comes back with a new token that lacks the scope gets a tool error. */
const alwaysChallenge = (mcpServer: PublishedMcpServer) =>
  ok(call('PATCH', mcpServer.base, { as: workspace.operator, body: { challenge: 'http' } }))

/** Calls the tool for a missing document: the tool answers, not the scope check. */
const expectReached = async (as: Caller, mcpServer: PublishedMcpServer, tool: string) => {
  const { status, body } = await callTool(mcpServer.path, as, tool, { id: 'x' })
  expect([status, body.result?.content[0].text]).toEqual([200, expect.stringContaining('not_found')])
}

describe('publication of an MCP server', () => {
  test('deleting tool under a scope that only read: needs approval, not active', async () => {
    const mcpServer = await publishMcpServer(workspace, 'moved', LIST)
    const token = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
    const made = await publish(mcpServer, WIDER)
    expect(made).toMatchObject({ version: 2, state: 'needs_approval', diff: { added: ['notes_delete'] } })
    expect(made.diff.widened).toEqual([
      {
        scope: 'mcp:moved:notes_list',
        tools: [{ name: 'notes_delete', title: 'Delete a document of notes', effect: 'changes', was: null }],
      },
    ])
    expect(made.diff.summary).toEqual([
      'The scope mcp:moved:notes_list now reaches “Delete a document of notes” (notes_delete), which changes or deletes data.',
    ])
    const server = await ok(call('GET', mcpServer.base, { as: workspace.operator }))
    expect([server.active_version, server.latest_version]).toEqual([1, 2])
    expect(await toolNames(token, mcpServer)).toEqual(['notes_list'])
    expect((await callTool(mcpServer.path, token, 'notes_delete', { id: 'x' })).body.error.code).toBe(-32_602)
    const refusal = await activate(mcpServer, 2)
    expect([refusal.status, refusal.body.code]).toEqual([409, 'state_conflict'])
    const { data } = await ok(call('GET', `${mcpServer.base}/versions`, { as: workspace.operator }))
    expect(data).toMatchObject([
      { version: 1, active: true, state: 'published', widened: [] },
      { version: 2, active: false, state: 'needs_approval', widened: made.diff.widened, approved_by: null },
    ])
  })

  test('tool that does more than before: needs approval', async () => {
    const mcpServer = await publishMcpServer(workspace, 'stronger', LIST)
    const annotations = { readOnlyHint: false, destructiveHint: true }
    const stricter = { 'collections:notes:list': { enabled: true, annotations } }
    const made = await publish(mcpServer, stricter)
    expect(made.state).toBe('needs_approval')
    expect(made.diff.widened[0].tools).toMatchObject([{ effect: 'changes', was: 'reads' }])
    const open = { 'collections:notes:list': { enabled: true, annotations: { openWorldHint: true } } }
    expect(await publish(mcpServer, open)).toMatchObject({
      state: 'needs_approval',
      diff: { summary: [expect.stringContaining('may reach other systems')] },
    })
    expect((await publish(mcpServer, LIST)).state).toBe('active')
  })

  test('other tool under the same name: needs approval', async () => {
    const mcpServer = await publishMcpServer(workspace, 'swapped', LIST)
    const swapped = { 'collections:notes:get': { enabled: true, name: 'notes_list' } }
    expect((await publish(mcpServer, swapped)).state).toBe('needs_approval')
  })

  test('scope that returns with another tool: needs approval', async () => {
    const GET = { 'collections:notes:get': { enabled: true } }
    const mcpServer = await publishMcpServer(workspace, 'returned', LIST)
    expect((await publish(mcpServer, GET)).state).toBe('active')
    const back = { ...GET, 'collections:notes:delete': { enabled: true, scope: 'notes_list' } }
    expect((await publish(mcpServer, back)).state).toBe('needs_approval')
    expect((await publish(mcpServer, { ...GET, ...LIST })).state).toBe('active')
  })

  test('new scope, name or text, or fewer tools: active at once', async () => {
    const mcpServer = await publishMcpServer(workspace, 'harmless', LIST)
    for (const tools of [
      { ...LIST, 'collections:notes:delete': { enabled: true } },
      {
        'collections:notes:list': { enabled: true, name: 'look', scope: 'notes_list', title: 'Look' },
        'collections:notes:delete': { enabled: true },
      },
      LIST,
    ])
      expect(await publish(mcpServer, tools)).toMatchObject({ state: 'active', diff: { widened: [] } })
  })
})

describe('approval of a version', () => {
  test('by a workspace admin: active, logged with the approver', async () => {
    const mcpServer = await publishMcpServer(workspace, 'approved', LIST)
    await publish(mcpServer, WIDER)
    const admin = await tokenOf({ sub: 'ada', roles: ['workspace_admin'], ...inWorkspace(workspace) })
    for (const as of [workspace.service, workspace.anon])
      expect((await approve(mcpServer, 2, as)).status).toBe(403)
    expect(await ok(approve(mcpServer, 2, admin))).toMatchObject({
      version: 2,
      active: true,
      state: 'published',
      approved_by: 'ada',
    })
    const [entry] = (await entriesOfWorkspace(workspace)).filter(
      ({ operation }) => operation === 'mcp_version.approve',
    )
    expect(entry).toMatchObject({ outcome: 'done', actor: { subject: 'ada' } })
    expect((await ok(activate(mcpServer, 1))).active).toBe(true)
    expect((await ok(activate(mcpServer, 2))).active).toBe(true)
  })

  test('unneeded or repeated: 409; unknown version: 404', async () => {
    const mcpServer = await publishMcpServer(workspace, 'twice-approved', LIST)
    expect((await approve(mcpServer, 1)).body.code).toBe('state_conflict')
    await publish(mcpServer, WIDER)
    await ok(approve(mcpServer, 2))
    expect((await approve(mcpServer, 2)).body.code).toBe('state_conflict')
    expect((await approve(mcpServer, 9)).status).toBe(404)
  })

  test('machine client: earlier tokens do not reach the new tool, later ones do', async () => {
    const mcpServer = await publishMcpServer(workspace, 'machine', LIST)
    await alwaysChallenge(mcpServer)
    const scopes = [scopesOf(mcpServer, 'notes_list')]
    const made = await ok(
      call('POST', `${mcpServer.base}/clients`, { as: workspace.operator, body: { name: 'agent', scopes } }),
    )
    const client = { id: made.client_id, secret: made.client_secret }
    const before = bearer((await askToken({}, client)).body['access_token'])
    await publish(mcpServer, WIDER)
    const between = bearer((await askToken({}, client)).body['access_token'])
    await ok(approve(mcpServer, 2))
    for (const token of [before, between]) {
      expect(await toolNames(token, mcpServer)).toEqual(['notes_list'])
      await expectRefused(token, mcpServer, 'notes_delete', 'notes_list')
    }
    // The scopes of the challenge, as an SDK client requests them.
    for (const more of [{}, { resource: mcpServer.url, scope: `${scopes} ${scopes}@2` }]) {
      const { body } = await askToken(more, client)
      expect(body['scope']).toBe(scopes[0])
      await expectReached(bearer(body['access_token']), mcpServer, 'notes_delete')
    }
  })
})

describe('consent', () => {
  test('scope widened afterwards: its tokens and refreshed tokens do not reach the new tool (T14)', async () => {
    const mcpServer = await publishMcpServer(workspace, 'bound', LIST)
    await alwaysChallenge(mcpServer)
    const before = (await tokensOf(clientId, person, accessTo(mcpServer, 'notes_list'))).body
    await publish(mcpServer, WIDER)
    await ok(approve(mcpServer, 2))
    const renewed = (await refresh(clientId, before['refresh_token'])).body
    for (const { access_token } of [before, renewed]) {
      const token = bearer(access_token)
      expect(await toolNames(token, mcpServer)).toEqual(['notes_list'])
      expect((await callTool(mcpServer.path, token, 'notes_list')).body.result.isError).toBe(false)
      await expectRefused(token, mcpServer, 'notes_delete', 'notes_list')
    }
    const anew = (await tokensOf(clientId, person, accessTo(mcpServer, 'notes_list'))).body
    await expectReached(bearer(anew['access_token']), mcpServer, 'notes_delete')
    // A new consent does not extend earlier tokens.
    const old = (await refresh(clientId, renewed['refresh_token'])).body
    await expectRefused(bearer(old['access_token']), mcpServer, 'notes_delete', 'notes_list')
  })

  test('live session: no page if nothing widened; the page again, naming the tool, if it did', async () => {
    const mcpServer = await publishMcpServer(workspace, 'again', LIST)
    const browser = new Browser(WEB)
    const flow = () => authorization(webClient, { redirect_uri: WEB, ...accessTo(mcpServer, 'notes_list') })
    const first = await browser.submit(await login(browser, flow()), { action: 'allow' })
    expect(first.url).toContain(`${WEB}?code=`)
    await publish(mcpServer, { ...LIST, 'collections:notes:get': { enabled: true } })
    expect((await browser.open(flow().url)).url).toContain(`${WEB}?code=`)
    await publish(mcpServer, { ...WIDER, 'collections:notes:get': { enabled: true } })
    expect((await browser.open(flow().url)).url).toContain(`${WEB}?code=`)
    await ok(approve(mcpServer, 3))
    const page = await browser.open(flow().url)
    expect(page.html).toContain('Allow access?')
    expect(page.html).toContain('Delete a document of notes')
    const silent = authorization(webClient, {
      redirect_uri: WEB,
      prompt: 'none',
      ...accessTo(mcpServer, 'notes_list'),
    })
    expect((await browser.open(silent.url)).url).toContain('error=consent_required')
    const again = await browser.open(flow().url)
    expect((await browser.submit(again, { action: 'allow' })).url).toContain(`${WEB}?code=`)
    expect((await browser.open(flow().url)).url).toContain(`${WEB}?code=`)
  })

  test('version approved while the page is open: consent covers what the page showed', async () => {
    const mcpServer = await publishMcpServer(workspace, 'meanwhile', LIST)
    await publish(mcpServer, WIDER)
    const browser = new Browser(REDIRECT)
    const flow = authorization(clientId, accessTo(mcpServer, 'notes_list'))
    const page = await login(browser, flow)
    expect(page.html).not.toContain('Delete a document')
    await ok(approve(mcpServer, 2))
    expect((await browser.open(page.url)).html).not.toContain('Delete a document')
    const next = await browser.submit(page, { action: 'allow' })
    expect(next.html).toContain('Delete a document of notes')
    const end = await browser.submit(next, { action: 'allow' })
    const { body } = await exchange(clientId, flow, new URL(end.url))
    await expectReached(bearer(body['access_token']), mcpServer, 'notes_delete')
  })

  test('given for fewer tools, older version reactivated: its other tools are not reached', async () => {
    const mcpServer = await publishMcpServer(workspace, 'back', {
      ...LIST,
      'collections:notes:get': { enabled: true, scope: 'notes_list' },
    })
    await publish(mcpServer, LIST)
    const { body } = await tokensOf(clientId, person, accessTo(mcpServer, 'notes_list'))
    await ok(activate(mcpServer, 1))
    await expectRefused(bearer(body['access_token']), mcpServer, 'notes_get', 'notes_list')
  })

  test('another server at the same URL: tokens are not refreshed for it, and its consent page is shown (T14)', async () => {
    const first = await publishMcpServer(workspace, 'reborn', LIST)
    const browser = new Browser(WEB)
    const access = accessTo(first, 'notes_list')
    const begin = () => authorization(webClient, { redirect_uri: WEB, ...access })
    const page = await login(browser, begin())
    expect(page.html).toContain('Allow access?')
    await browser.submit(page, { action: 'allow' })
    const { body } = await tokensOf(clientId, person, access)
    await ok(call('DELETE', first.base, { as: workspace.operator }))
    await publishMcpServer(workspace, 'reborn', {
      'collections:notes:delete': { enabled: true, scope: 'notes_list' },
    })
    expect((await refresh(clientId, body['refresh_token'])).body).toMatchObject({ error: 'invalid_grant' })
    const again = await browser.open(begin().url)
    expect(again.html).toContain('Delete a document of notes')
  })

  test('SDK client meets the challenge: asks for consent again, then the call succeeds', async () => {
    const mcpServer = await publishMcpServer(workspace, 'client', LIST)
    const authProvider = agentOf(person)
    const { client, finish } = await connectModern(mcpServer.url, { authProvider })
    await publish(mcpServer, WIDER)
    await ok(approve(mcpServer, 2))
    const remove = () => client.callTool({ name: 'notes_delete', arguments: { id: 'x' } })
    await expect(remove()).rejects.toThrow(/unauthorized/i)
    expect(authProvider.requestedScopes).toHaveLength(2)
    await finish()
    expect(await remove()).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('not_found') }],
    })
    await client.close()
  })

  test('token without a version: 401', async () => {
    const mcpServer = await publishMcpServer(workspace, 'unnamed', LIST)
    const claims = {
      sub: 'agent',
      client_id: 'tenon-operator',
      ...inWorkspace(workspace),
      mcp_server: mcpServer.id,
      scope: scopesOf(mcpServer, 'notes_list'),
    }
    const unversioned = await tokenOf(claims, { audience: mcpServer.url })
    expect((await rpc(mcpServer.path, unversioned, 'tools/list')).status).toBe(401)
    const { body } = await tokensOf(clientId, person, accessTo(mcpServer, 'notes_list'))
    expect(claimsOf(body['access_token'])).toMatchObject({ mcp_version: 1 })
  })
})
