/** CLI commands against the running platform, as a user types them. */

import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let env: NodeJS.ProcessEnv
let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  env = operatorEnv(workspace)
})

const run = (...args: string[]) => runCommand(args, { env })
/** Runs a command that succeeds. @returns its output */
async function tenon(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args)
  expect(code, stderr).toBe(0)
  return stdout
}
const json = async (...args: string[]) => JSON.parse(await tenon(...args))

test('--version: prints that of the package', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  expect(await tenon('--version')).toBe(`${version}\n`)
})

test('collection add and list: new collection: listed', async () => {
  await json('collection', 'add', 'todos', '{"title":"milk"}')
  expect((await json('collection', 'list', 'todos')).data).toMatchObject([{ title: 'milk' }])
  expect(await json('collection', 'aggregate', 'todos', 'title,n:count()', 'order=n.desc')).toMatchObject({
    data: [{ title: 'milk', n: 1 }],
  })
  const refused = await run('collection', 'add', 'todos', '{title: [')
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^The document: Flow sequence .* at line 1, column 10:/),
  })
})

test('collection rename, truncate and drop: need --yes for what cannot be restored', async () => {
  await json('collection', 'add', 'drafts', '{}')
  expect(await tenon('collection', 'rename', 'drafts', 'sketches')).toBe('drafts renamed to sketches\n')
  const refused = await run('collection', 'truncate', 'sketches')
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('Add --yes to confirm.')])
  expect((await json('collection', 'list', 'sketches')).data).toHaveLength(1)
  expect(await tenon('collection', 'truncate', 'sketches', '--yes')).toBe('sketches truncated\n')
  await json('collection', 'add', 'sketches', '{}')
  expect(await tenon('collection', 'drop', 'sketches', '--yes')).toBe('sketches dropped\n')
  expect((await json('collection', 'list', 'sketches')).data).toEqual([])
})

test('collection add, patch and batch: upserts, chosen ids, operators, all changes or each by itself', async () => {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection: 'people', store: 'relational' },
    ...{ schema: { properties: { email: { type: 'string' } } }, unique: [['email']] },
  }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const ada = '{"email": "ada@example.com"}'
  const { id } = await json('collection', 'add', 'people', ada, '--upsert', 'email')
  expect(await json('collection', 'add', 'people', ada, '--upsert', 'email')).toMatchObject({ id })
  const chosen = crypto.randomUUID()
  expect(await json('collection', 'add', 'people', '{}', '--id', chosen)).toMatchObject({ id: chosen })
  const again = await run('collection', 'add', 'people', '{}', '--id', chosen)
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('precondition_failed')])
  const both = await run('collection', 'add', 'people', '{}', '--id', chosen, '--upsert', 'email')
  expect([both.code, both.stderr]).toEqual([1, 'Use either --upsert or --id.\n'])
  expect(await json('collection', 'patch', 'people', id, '{"n": 1, "absent": null}')).toMatchObject({ n: 1 })
  const operators = '{"inc": {"n": 2}, "push": {"tags": "a"}}'
  expect(await json('collection', 'patch', 'people', id, operators, '--operators')).toMatchObject({
    n: 3,
    tags: ['a'],
  })
  const create = { collection: 'people', op: 'create', id: chosen, data: {} }
  const other = { collection: 'people', op: 'create', data: {} }
  const refused = await run('collection', 'batch', JSON.stringify([other, create]))
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('precondition_failed')])
  const each = await run('collection', 'batch', JSON.stringify([other, create]), '--each')
  expect([
    each.code,
    JSON.parse(each.stdout).results.map(({ status }: { status: number }) => status),
  ]).toEqual([2, [201, 412]])
  const made = await json(
    'collection',
    'batch',
    JSON.stringify([other, { ...other, data: { of: { $ref: 0 } } }]),
  )
  expect(made).toMatchObject({ committed: true, results: [{ status: 201 }, { status: 201 }] })
})

test('collection import and export: file: documents stored and exported', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-cli-'))
  try {
    const [from, to] = [join(dir, 'in.ndjson'), join(dir, 'out.ndjson')]
    await writeFile(from, '{"n":1}\n{"n":2}\n')
    const imported = () => json('collection', 'import', 'files', from)
    expect(await imported()).toMatchObject({ created: 2, existing: 0 })
    expect(await imported()).toMatchObject({ created: 0, existing: 2 })
    await tenon('collection', 'export', 'files', 'n=gte.2', '--out', to)
    expect(await readdir(dir)).toEqual(['in.ndjson', 'out.ndjson'])
    expect(await readFile(to, 'utf8')).toMatch(/^\{"id":"[^"]+","n":2,[^\n]*\}\n$/)
    expect((await tenon('collection', 'export', 'files')).split('\n')).toHaveLength(3)
    const table = join(dir, 'table.csv')
    await writeFile(table, 'title;n\nmilk;1\n')
    const cells = ['--delimiter', ';', '--json-cells']
    expect(await json('collection', 'import', 'tables', table, ...cells)).toMatchObject({
      created: 1,
      failed: 0,
    })
    const dry = ['--dry-run', '--mode', 'upsert']
    expect(await json('collection', 'import', 'tables', table, ...cells, ...dry)).toMatchObject({
      updated: 1,
    })
    await tenon('collection', 'export', 'tables', 'select=title,n', '--out', table, ...cells)
    expect(await readFile(table, 'utf8')).toMatch(/^id;title;n\r\n[0-9a-f-]{36};milk;1\r\n$/)
    await writeFile(from, 'nonsense')
    expect(await run('collection', 'import', 'files', from)).toMatchObject({ code: 2 })
    const stopped = await run('collection', 'import', 'files', from, '--stop')
    expect([stopped.code, stopped.stderr]).toEqual([1, expect.stringContaining('body_invalid: Line 1: ')])
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

test('metrics: workspace: values read back', async () => {
  expect(await json('metrics', 'errors', '--window', '10m')).toMatchObject({ metric: 'errors', step: '1m' })
})

test('event subscribe: event published: printed', async () => {
  const listener = spawn(process.execPath, ['stack/bootstrap.mjs', 'event', 'subscribe', 'orders.*'], { env })
  const ready = new Promise((done) => listener.stderr.once('data', done))
  const heard = new Promise<string>((done) =>
    listener.stdout.once('data', (chunk: Buffer) => done(String(chunk))),
  )
  try {
    await ready
    await json('event', 'publish', 'orders.created', '{"n":1}')
    expect(JSON.parse(await heard)).toMatchObject({ type: 'orders.created', data: { n: 1 } })
  } finally {
    listener.kill()
  }
})

test('collection watch: documents that match are printed, then what changes among them', async () => {
  const { id } = await json('collection', 'add', 'watched', '{"n":1,"open":true}')
  const listener = spawn(
    process.execPath,
    ['stack/bootstrap.mjs', 'collection', 'watch', 'watched', 'open=eq.true'],
    { env },
  )
  let text = ''
  listener.stdout.on('data', (chunk: Buffer) => {
    text += String(chunk)
  })
  const printed = () =>
    text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line || 'null'))
  const until = (event: string) =>
    eventually(async () => (printed().at(-1)?.event === event ? true : undefined))
  try {
    await new Promise((done) => listener.stderr.once('data', done))
    expect(printed()[0]).toMatchObject({ event: 'list', id, document: { n: 1 } })
    const made = await json('collection', 'add', 'watched', '{"n":2,"open":true}')
    await eventually(async () => (printed().at(-1)?.id === made.id ? true : undefined))
    expect(printed().at(-1)).toMatchObject({ event: 'enter', document: { n: 2 } })
    const path = `/v1/collections/watched/documents/${made.id}`
    const changed = await call('PUT', path, { as: workspace.service, body: { open: false } })
    expect(changed.status).toBe(200)
    await until('leave')
    expect(printed().at(-1)).toEqual({ event: 'leave', id: made.id, version: 2 })
  } finally {
    listener.kill()
  }
})

test('demo: a step that fails: a warning with its name and the reason, exit code 1', async () => {
  const wrong = { env: { ...env, TENON_CLIENT_SECRET: 'wrong' } }
  const { code, stdout, stderr } = await runCommand(['demo'], wrong)
  const step = 'provisioning the tenant "demo" and its workspace "main"'
  const reason = `${step}: The token request failed: client authentication failed`
  expect([code, stderr]).toEqual([1, `${step}\nwarning: ${reason}\n`])
  expect(JSON.parse(stdout)).toMatchObject({ failed: [reason], serviceKey: env['TENON_SERVICE_KEY'] })
})

test('workspace egress: addresses allowed, listed and removed; malformed: refused', async () => {
  const egress = (...args: string[]) => tenon('workspace', 'egress', ...args)
  expect(await egress('list')).toBe('')
  expect(await egress('allow', '127.0.0.1:9911', 'localhost:80')).toBe('127.0.0.1:9911\nlocalhost:80\n')
  expect(await egress('allow', '127.0.0.1:9911')).toBe('127.0.0.1:9911\nlocalhost:80\n')
  expect(await egress('remove', '127.0.0.1:9911')).toBe('localhost:80\n')
  expect(await run('workspace', 'egress', 'allow', 'http://x/')).toMatchObject({ code: 1 })
})
