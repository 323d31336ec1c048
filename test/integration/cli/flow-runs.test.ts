/** CLI commands for executions, typed by a user, against the running platform. */

import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const BOOTSTRAP = resolve('stack/bootstrap.mjs')
let workspace: TestWorkspace
let folder: string
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-runs-'))
  workspace = await createTestWorkspace()
  env = operatorEnv(workspace)
  const { subject } = (await call('GET', '/v1/me', { as: workspace.operator })).body
  const document = 'id: 01890000-0000-7000-8000-000000000001'
  const flows = {
    narrow: `concurrency: { limit: 1 }\ndo: [{ sure: { approve: { approvers: ['${subject}'], fourEyes: false } } }]`,
    greet: 'do: [{ hello: { set: { message: Hello } } }, { rest: { wait: PT0.1S } }]',
    strict: `input: { schema: { document: { required: [n], properties: { m: { type: integer } } } } }\ndo: [{ a: { set: { x: 1 } } }]`,
    ask: `do: [{ sure: { approve: { approvers: ['${subject}'], fourEyes: false } } }]`,
    bad: `do:\n  - first: { set: { x: 1 } }\n  - find:\n      call: collection.get\n      with: { name: a, ${document} }`,
    halfway: `do:\n  - note: { call: collection.create, with: { name: notes, document: {} } }\n  - find: { call: collection.get, with: { name: a, ${document} } }`,
    slow: 'expect: { duration: PT1S }\ndo: [{ rest: { wait: PT1H } }]',
    held: `onFault: hold\ndo: [{ find: { call: collection.get, with: { name: a, ${document} } } }]`,
  }
  for (const [name, tasks] of Object.entries(flows)) {
    const head = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }`
    const body = { name, source: `${head}\n${tasks}\n` }
    await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body })
    const path = `${workspace.flows}/definitions/${name}/versions`
    expect((await call('POST', path, { as: workspace.operator, body: {} })).status).toBe(201)
  }
})
afterAll(() => rm(folder, { recursive: true, force: true }))

interface Step {
  readonly name: string
  readonly reused: boolean
}

const tenon = (...args: string[]) => runCommand(args, { env, callerDir: folder })

/** The id of an execution that was started and detached. */
const startDetached = async (flow: string, ...more: string[]) =>
  (await tenon('flow', 'run', flow, '--detach', ...more)).stdout.trim()

const waitForStatus = (id: string, status: string) =>
  eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })
    return body.status === status ? body : undefined
  })

/** Removes what differs from run to run. */
const plain = (text: string) =>
  text
    .replaceAll(/run_[0-9a-z]+/g, 'run_X')
    .replaceAll(/ +\+\d+\.\d+s/g, ' +T')
    .replaceAll(/\b[\d.]+m?s\b/g, 'T')

test('run: invalid input: every error with its location', async () => {
  const { code, stdout, stderr } = await tenon('flow', 'run', 'strict', '--input', '{"m":"two"}')
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/input_invalid: .* 2 locations\.\n +\/input\/m .*integer\n +\/input .*`n`\n/)
})

test('run: without a terminal: events as lines, the output alone on stdout', async () => {
  const { code, stdout, stderr } = await tenon('flow', 'run', 'greet')
  expect([code, JSON.parse(stdout)]).toEqual([0, { message: 'Hello' }])
  expect(plain(stderr).replace(/^http.*\n/m, '')).toBe(`run_X
● +T  running    hello  set message
✓ +T  completed  hello  set message
● +T  running    rest  wait 100 milliseconds
◌ +T  waiting    rest  wait 100 milliseconds
✓ +T  completed  rest  wait 100 milliseconds
completed
`)
  const waited = await tenon('flow', 'run', 'greet', '--wait', '--key', 'order-7')
  expect([waited.code, JSON.parse(waited.stdout)]).toEqual([0, { message: 'Hello' }])
  expect(waited.stderr).not.toContain('hello')
})

test('watch: the workspace is printed once, though it takes a client for each connection', async () => {
  const { TENON_QUIET: _, ...loud } = env
  const { stderr } = await runCommand(['flow', 'run', 'greet'], { env: loud })
  expect(stderr.match(/^tenon: workspace /gm)).toHaveLength(1)
})

test('list: with filters: matching executions; show: draws the tree', async () => {
  const id = await startDetached('greet', '--key', 'order-8')
  await waitForStatus(id, 'completed')
  const { stdout } = await tenon('flow', 'list', '--limit', '100')
  expect(stdout.split('\n')[0]).toMatch(/^EXECUTION +FLOW +STATUS +TRIGGER +STARTED +LASTED +KEY$/)
  expect(stdout).toMatch(new RegExp(`^${id}  greet v1 +✓ completed +manual +\\S+ \\S+ +\\S+ +order-8$`, 'm'))
  const output = await tenon('flow', 'show', id)
  expect(plain(output.stdout)).toBe(`✓ greet v1  run_X  completed  T
├─ ✓ hello  set message  T
└─ ✓ rest  wait 100 milliseconds  T
`)
  expect((await tenon('flow', 'versions', 'greet')).stdout).toMatch(/^v1 +[0-9a-f]{12} /m)
})

test('run: execution faults: exit code 1 and the location in the source; show: the same', async () => {
  const { code, stdout, stderr } = await tenon('flow', 'run', 'bad')
  expect([code, JSON.parse(stdout).status]).toEqual([1, 404])
  const why = `at /do/1/find
4 |   - find:
  |     ^
`
  expect(stderr).toContain(why)
  const [id = ''] = stderr.split('\n')
  const output = await tenon('flow', 'show', id)
  expect(output.stdout).toContain(why)
  expect(plain(output.stdout)).toMatch(/^├─ ✓ first .*\n└─ ✗ find .*\n {5}.*Not found/m)
})

test('approve and cancel: waiting execution: continues or ends; watch: ends with the execution', async () => {
  const [yes, no] = [await startDetached('ask'), await startDetached('ask')]
  await Promise.all([waitForStatus(yes, 'waiting'), waitForStatus(no, 'waiting')])
  const watching = spawn(process.execPath, [BOOTSTRAP, 'flow', 'watch', yes], { cwd: folder, env })
  let seen = ''
  watching.stderr.on('data', (chunk) => {
    seen += chunk
  })
  const closed = new Promise<number | null>((done) => watching.once('close', done))
  await eventually(async () => (seen.includes('waiting') ? true : undefined))
  const approved = await tenon('approval', 'approve', yes, '--comment', 'Fine.')
  expect([approved.code, approved.stdout]).toEqual([0, expect.stringMatching(/^apr_\w+ approved\n$/)])
  expect(await closed).toBe(0)
  expect(seen).toMatch(/completed\n$/)
  expect((await tenon('flow', 'cancel', no)).code).toBe(0)
  expect(await tenon('flow', 'watch', no)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/cancelled\n$/),
  })
  const late = await tenon('approval', 'approve', yes)
  expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('waits for no approval')])
})

test('run: execution queued for a slot: reports it, continues once it has one', async () => {
  const [first, second, third] = [
    await startDetached('narrow'),
    await startDetached('narrow'),
    await startDetached('narrow'),
  ]
  await waitForStatus(first, 'waiting')
  const output = await tenon('flow', 'show', third)
  expect(plain(output.stdout)).toBe(
    '○ narrow v1  run_X  pending  T\n  position 2 in the queue, 1 of 1 slots in use\n',
  )
  const watching = spawn(process.execPath, [BOOTSTRAP, 'flow', 'watch', third], { cwd: folder, env })
  let seen = ''
  watching.stderr.on('data', (chunk) => {
    seen += chunk
  })
  const closed = new Promise<number | null>((done) => watching.once('close', done))
  await eventually(async () => (seen.includes('○ position 2 in the queue') ? true : undefined))
  await tenon('flow', 'cancel', second)
  await eventually(async () => (seen.includes('○ position 1 in the queue') ? true : undefined))
  await tenon('approval', 'approve', first)
  await eventually(async () => (/waiting +sure/.test(seen) ? true : undefined))
  await tenon('approval', 'approve', third)
  expect(await closed).toBe(0)
  expect(seen.match(/in the queue/g)).toHaveLength(2)
})

test('run: interrupted: reports that the execution continues', async () => {
  const id = await startDetached('ask')
  const watching = spawn(process.execPath, [BOOTSTRAP, 'flow', 'watch', id], { cwd: folder, env })
  let seen = ''
  watching.stderr.on('data', (chunk) => {
    seen += chunk
  })
  const closed = new Promise<number | null>((done) => watching.once('close', done))
  await eventually(async () => (seen.includes('sure') ? true : undefined))
  watching.kill('SIGINT')
  expect(await closed).toBe(130)
  expect(seen).toContain(`${id} is still running. To end it: \`tenon flow cancel ${id}\`.`)
  expect(await waitForStatus(id, 'waiting')).toMatchObject({ id })
})

test('alias: set, listed, run, removed: effective', async () => {
  const set = await tenon('flow', 'alias', 'set', 'greet', 'production', '1')
  expect([set.code, set.stdout]).toEqual([0, 'production  v1\n'])
  expect((await tenon('flow', 'alias', 'list', 'greet')).stdout).toBe('production  v1\n')
  const ran = await tenon('flow', 'run', 'greet', '--alias', 'production', '--wait')
  expect([ran.code, JSON.parse(ran.stdout)]).toEqual([0, { message: 'Hello' }])
  const wrong = await tenon('flow', 'alias', 'set', 'greet', 'canary', '1:90', 'two')
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('two is not a version')])
  expect((await tenon('flow', 'alias', 'remove', 'greet', 'production')).code).toBe(0)
  const removed = await tenon('flow', 'run', 'greet', '--alias', 'production')
  expect([removed.code, removed.stderr]).toEqual([1, expect.stringContaining('not_found')])
})

test('retry: suspended step: continues in the same execution', async () => {
  const id = await startDetached('held')
  await waitForStatus(id, 'suspended')
  const output = await tenon('flow', 'show', id)
  expect(plain(output.stdout)).toMatch(
    /^‖ held v1 {2}run_X {2}suspended .*\n└─ ‖ find .* held .*\n {5}.*Not found/m,
  )
  expect(await tenon('flow', 'retry', id, '--detach')).toMatchObject({ code: 0 })
  expect(await waitForStatus(id, 'suspended')).toMatchObject({ id })
  expect((await tenon('flow', 'cancel', id)).code).toBe(0)
})

test('retry: faulted execution: new execution from the failed step', async () => {
  const id = await startDetached('halfway')
  await waitForStatus(id, 'faulted')
  const again = await tenon('flow', 'retry', id, '--detach')
  expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/^run_\w+\n$/)])
  const run = await waitForStatus(again.stdout.trim(), 'faulted')
  expect(run).toMatchObject({ rerun_of: id, trigger: { kind: 'rerun', id } })
  expect(run.steps.map(({ name, reused }: Step) => [name, reused])).toEqual([
    ['note', true],
    ['find', false],
  ])
  const watched = await tenon('flow', 'retry', id)
  expect([watched.code, JSON.parse(watched.stdout).status]).toEqual([1, 404])
  expect(watched.stderr).toContain('at /do/1/find')
  const notes = await call('GET', '/v1/collections/notes/documents', { as: workspace.service })
  expect(notes.body.data).toHaveLength(1)
})

test('any command: unknown id: one line', async () => {
  for (const verb of ['watch', 'show', 'cancel', 'retry']) {
    const { code, stdout, stderr } = await tenon('flow', verb, 'run_nothing')
    expect([verb, code, stdout, stderr]).toEqual([verb, 1, '', expect.stringContaining('not_found')])
  }
})

test('pause and resume: running execution: effective; rerun: shows the results it would reuse', async () => {
  const id = await startDetached('ask')
  await waitForStatus(id, 'waiting')
  expect(await tenon('flow', 'pause', id, '--reason', 'Wait.')).toMatchObject({ stdout: `${id} suspended\n` })
  expect(await tenon('flow', 'resume', id)).toMatchObject({ stdout: `${id} waiting\n` })
  expect((await tenon('flow', 'cancel', id)).code).toBe(0)
  await waitForStatus(id, 'cancelled')
  const planned = await tenon('flow', 'rerun', id, '--dry-run')
  expect(JSON.parse(planned.stdout)).toMatchObject({ reused: [], refusals: [] })
  const again = await tenon('flow', 'rerun', id, '--detach')
  expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/^run_\w+\n$/)])
  expect(await waitForStatus(again.stdout.trim(), 'waiting')).toMatchObject({ rerun_of: id })
})

test('show: an execution that lasts longer than `expect.duration` is overdue', async () => {
  const id = await startDetached('slow')
  await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })
    return body.overdue ? true : undefined
  })
  const { code, stdout } = await tenon('flow', 'show', id)
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining('\noverdue: the execution takes longer than `expect.duration`'),
  ])
  await tenon('flow', 'cancel', id)
})
