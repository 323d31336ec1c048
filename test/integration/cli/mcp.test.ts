/** `tenon mcp`: from a collection to a published server and tool calls, by command line only. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { callTool } from '../../support/clients/mcp.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('mcp publish: collection: server with instructions for clients; its token and `mcp call`: call the tool', async () => {
  const { url } = inject('tenon')
  const workspace = await createTestWorkspace()
  await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { text: 'by hand' } })
  const env = operatorEnv(workspace)
  const tenon = (...args: string[]) => runCommand(['mcp', ...args], { env })
  expect(await tenon('publish', 'notes')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^Nothing was published[\s\S]*mcp candidates notes[\s\S]*--tool <name>/),
  })
  expect((await tenon('list')).stdout).toMatch(/^notes +created /)
  const chosen = ['notes_get', 'notes_list', 'notes_query', 'result_read']
  const published = await tenon('publish', 'notes', '--tool', ...chosen)
  expect(JSON.parse(published.stdout)).toMatchObject({
    version: 1,
    diff: { added: chosen },
  })
  const path = `/v1/mcp/workspaces/${workspace.workspaceId}/servers/notes/mcp`
  const [line = ''] = published.stderr.split('\n').filter((text) => text.startsWith('{'))
  expect(JSON.parse(line)).toEqual({ mcpServers: { notes: { type: 'http', url: `${url}${path}` } } })
  const token = await tenon('token', 'notes')
  expect(token.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  const as = { authorization: `Bearer ${token.stdout.trim()}` }
  const { body } = await callTool(path, as, 'notes_list')
  expect(body.result.structuredContent.data).toMatchObject([{ text: 'by hand' }])
  const called = await tenon(
    'call',
    'notes',
    'notes_query',
    '--arguments',
    '{"where":[{"field":"text","operator":"eq","value":"by hand"}]}',
  )
  expect(JSON.parse(called.stdout)).toMatchObject({ is_error: false })
  expect((await tenon('list')).stdout).toMatch(/^notes +published +v1 +notes\n$/)
  expect((await tenon('candidates', 'notes')).stdout).toContain('collections:notes:create')
  expect(JSON.parse((await tenon('show', 'notes')).stdout)).toMatchObject({
    slug: 'notes',
    active_version: 1,
  })
  expect((await tenon('diff', 'notes')).stdout).toMatch(/^safe: 4 tools, about \d+ tokens\n/)
  expect(JSON.parse((await tenon('preview', 'notes')).stdout).tools).toHaveLength(4)
  expect((await tenon('audit', 'notes')).stdout).toMatch(/ ok +notes_query /)
  expect(await tenon('approve', 'notes', '1')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('needs no approval'),
  })
  expect(JSON.parse((await tenon('rollback', 'notes', '1')).stdout)).toMatchObject({
    version: 1,
    active: true,
  })
  expect(JSON.parse((await tenon('clients', 'notes')).stdout).data).toEqual([])
  expect(await tenon('call', 'notes', 'notes_get', '--arguments', '{"id":"x"}')).toMatchObject({ code: 1 })
})

test('mcp inspect: each step of a client, and the tools with their tokens; a step that fails: exit code 1', async () => {
  const { url } = inject('tenon')
  const workspace = await createTestWorkspace()
  await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { text: 'by hand' } })
  const env = operatorEnv(workspace)
  const tenon = (...args: string[]) => runCommand(['mcp', ...args], { env })
  await tenon('publish', 'notes', '--reads')
  const path = `/v1/mcp/workspaces/${workspace.workspaceId}/servers/notes/mcp`
  const hosted = await tenon('inspect', 'notes')
  expect([hosted.code, hosted.stdout.split('\n').slice(0, 7)]).toEqual([
    0,
    [
      `${url}${path}`,
      `ok    request without a token: 401, metadata at ${url}/.well-known/oauth-protected-resource${path}`,
      expect.stringMatching(
        `^ok    metadata: issuer ${url}/auth; scopes mcp:notes:notes_aggregate mcp:notes:notes_get mcp:notes:notes_list`,
      ),
      expect.stringMatching(/^ok {4}token: issued to /),
      'ok    initialize, 2025-11-25: notes 1',
      expect.stringMatching(/^ok {4}server\/discover, 2026-07-28: versions .*2026-07-28/),
      expect.stringMatching(/^ok {4}tools\/list: 5 tools, about \d+ tokens$/),
    ],
  ])
  expect(hosted.stdout).toMatch(/^notes_list +reads +\d+ {2}/m)
  const platform = await tenon('inspect', 'platform')
  expect([platform.code, platform.stdout]).toEqual([
    0,
    expect.stringMatching(/^flow_create +writes +\d+ {2}/m),
  ])
  await call('PATCH', path.replace(/\/mcp$/, ''), { as: workspace.operator, body: { suspended: true } })
  expect(await tenon('inspect', 'notes')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('FAIL  request without a token: HTTP 404'),
  })
})

test.each([
  ['claude-code', (url: string) => ({ mcpServers: { tenon: { type: 'http', url } } })],
  ['cursor', (url: string) => ({ mcpServers: { tenon: { url } } })],
  ['vscode', (url: string) => ({ servers: { tenon: { type: 'http', url } } })],
  ['gemini', (httpUrl: string) => ({ mcpServers: { tenon: { httpUrl } } })],
  ['windsurf', (serverUrl: string) => ({ mcpServers: { tenon: { serverUrl } } })],
  ['zed', (url: string) => ({ context_servers: { tenon: { url } } })],
])('mcp config for %s: JSON alone on stdout, its place on stderr', async (client, expected) => {
  const { url } = inject('tenon')
  const env = operatorEnv(await createTestWorkspace())
  const { stdout, stderr } = await runCommand(['mcp', 'config', 'platform', '--client', client], { env })
  expect(JSON.parse(stdout)).toEqual(expected(`${url}/v1/mcp/platform/mcp`))
  expect(stderr).toMatch(/\.json/)
})

test('mcp publish: a version that waits for approval: exit code 2, the command to approve it, no configuration', async () => {
  const workspace = await createTestWorkspace()
  await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { text: 'by hand' } })
  const env = operatorEnv(workspace)
  const folder = await mkdtemp(join(tmpdir(), 'tenon-'))
  const tenon = (...args: string[]) => runCommand(['mcp', ...args], { env, callerDir: folder })
  const write = (...keys: string[]) => {
    const tools = Object.fromEntries(keys.map((key) => [`collections:notes:${key}`, { enabled: true }]))
    return writeFile(join(folder, 'tools.json'), JSON.stringify({ tools }))
  }
  await tenon('publish', 'notes', '--reads')
  await write('create')
  const waiting = await tenon('publish', 'notes', '--tools', 'tools.json')
  expect([waiting.code, JSON.parse(waiting.stdout).state]).toEqual([2, 'needs_approval'])
  expect(waiting.stderr).toContain(
    'Version 2 is not active until an admin approves it: npx tenon mcp approve notes 2\n',
  )
  expect(waiting.stderr).not.toContain('mcpServers')
  const early = await tenon('call', 'notes', 'notes_create')
  const message = 'notes_create is in version 2, which is not active: npx tenon mcp approve notes 2\n'
  expect([early.code, early.stderr]).toEqual([1, message])
  const unknown = await tenon('call', 'notes', 'nothing')
  expect(unknown.stderr).toBe(
    'notes has no tool nothing. Version 1 has notes_aggregate, notes_get, notes_list, notes_query, result_read.\n',
  )
  await write('lst')
  const misspelt = await tenon('publish', 'notes', '--tools', 'tools.json')
  expect(misspelt.stderr).toContain(
    'is not a candidate. Did you mean collections:notes:list? `tenon mcp candidates',
  )
  expect((await tenon('publish', 'second')).stderr).toContain('`npx tenon quota set <name> <limit>`')
  await rm(folder, { recursive: true })
})

test('mcp config: TOML for codex, the address for claude-desktop; another client: which there are', async () => {
  const { url } = inject('tenon')
  const env = operatorEnv(await createTestWorkspace())
  const config = (...args: string[]) => runCommand(['mcp', 'config', 'platform', ...args], { env })
  const codex = await config('--client', 'codex')
  expect(codex.stdout).toBe(`[mcp_servers.tenon]\nurl = "${url}/v1/mcp/platform/mcp"\n`)
  expect(codex.stderr).toContain('codex mcp login tenon')
  expect((await config('--client', 'claude-desktop')).stdout).toBe(`${url}/v1/mcp/platform/mcp\n`)
  const unknown = {
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('one of claude-code, claude-desktop'),
  }
  expect(await config('--client', 'toString')).toMatchObject(unknown)
  expect((await config()).stdout).toBe((await config('--client', 'claude-code')).stdout)
})

test('mcp sources: document registered from a file, listed, changed, accepted, deleted', async () => {
  const workspace = await createTestWorkspace()
  const env = operatorEnv(workspace)
  const tenon = (...args: string[]) => runCommand(['mcp', ...args], { env })
  const folder = await mkdtemp(join(tmpdir(), 'tenon-'))
  const document = join(folder, 'shop.yaml')
  const write = (summary: string) =>
    writeFile(
      document,
      `openapi: 3.1.0\npaths: { /orders: { get: { operationId: list, summary: ${summary} } } }\n`,
    )
  await write('Orders')
  const more = ['--document', document, '--headers', '{"X-Client": {"value": "tenon"}}']
  const added = await tenon('sources', 'add', 'shop', 'https://shop.example/api', ...more)
  expect(JSON.parse(added.stdout)).toMatchObject({ name: 'shop', tools: 1, headers: { 'X-Client': {} } })
  expect((await tenon('sources', 'list')).stdout).toMatch(
    /^shop +openapi +ready +1 tools +https:\/\/shop\.example\/api\n$/,
  )
  await write('Late orders')
  const drifted = JSON.parse((await tenon('sources', 'refresh', 'shop', '--document', document)).stdout)
  expect(drifted).toMatchObject({ state: 'drifted', drift: { changed: ['list'] } })
  const accepted = await tenon('sources', 'refresh', 'shop', '--document', document, '--accept')
  expect(JSON.parse(accepted.stdout)).toMatchObject({ state: 'ready', hash: drifted.drift.hash })
  expect(JSON.parse((await tenon('sources', 'delete', 'shop')).stdout)).toMatchObject({ deleted: true })
  await rm(folder, { recursive: true })
})

test('mcp curate, publish, approve, clients: a draft from a file waits for approval, and is active after it', async () => {
  const workspace = await createTestWorkspace()
  await call('POST', '/v1/collections/notes/documents', { as: workspace.service, body: { text: 'by hand' } })
  const env = operatorEnv(workspace)
  const folder = await mkdtemp(join(tmpdir(), 'tenon-'))
  const tenon = (...args: string[]) => runCommand(['mcp', ...args], { env, callerDir: folder })
  const published = JSON.parse((await tenon('publish', 'desk', '--reads')).stdout)
  expect(published).toMatchObject({ version: 1, state: 'active' })
  const list = { enabled: true, title: 'Read our notes' }
  // A tool that changes something behind a scope that only read so far.
  const create = { enabled: true, scope: 'notes_list' }
  const tools = { 'collections:notes:list': list, 'collections:notes:create': create }
  await writeFile(join(folder, 'desk.json'), JSON.stringify({ tools }))
  expect(JSON.parse((await tenon('curate', 'desk', 'desk.json')).stdout)).toMatchObject({
    active_version: 1,
    curation: { tools },
  })
  const waiting = await tenon('publish', 'desk')
  expect([waiting.code, JSON.parse(waiting.stdout)]).toMatchObject([
    2,
    { version: 2, state: 'needs_approval', diff: { added: ['notes_create'] } },
  ])
  expect(waiting.stderr).toContain('npx tenon mcp approve desk 2\n')
  const approved = await tenon('approve', 'desk', '2')
  expect([approved.code, JSON.parse(approved.stdout)]).toMatchObject([
    0,
    { version: 2, active: true, state: 'published', approved_by: expect.stringMatching(/./) },
  ])
  const called = await tenon('call', 'desk', 'notes_create', '--arguments', '{"document":{"text":"new"}}')
  expect([called.code, JSON.parse(called.stdout)]).toMatchObject([0, { structured_content: { text: 'new' } }])
  expect(JSON.parse((await tenon('show', 'desk')).stdout).curation.tools).toMatchObject(tools)

  const body = { name: 'Night agent', scopes: ['mcp:desk:notes_list'] }
  const clients = `/v1/mcp/workspaces/${workspace.workspaceId}/servers/desk/clients`
  const made = await call('POST', clients, { as: workspace.operator, body })
  const listed = await tenon('clients', 'desk')
  expect([listed.code, JSON.parse(listed.stdout).data]).toEqual([
    0,
    [expect.objectContaining({ ...body, client_id: made.body.client_id })],
  ])
  expect(made.body.client_secret).toMatch(/./)
  expect(listed.stdout).not.toContain(made.body.client_secret)
  const reads = JSON.parse((await tenon('publish', 'desk', '--reads', '--accept-breaking')).stdout)
  expect(reads.diff).toMatchObject({ removed: ['notes_create'] })
  await rm(folder, { recursive: true })
})
