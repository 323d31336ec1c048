/** `tenon trace`: what it finds in the logs of an installation and in its records, and how it prints them. */

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

interface Shown {
  readonly time: string
  readonly from: string
  readonly what: string
  readonly tenant?: string
  readonly request_id?: string
  readonly trace_id?: string
}

const requestId = unique('story')
let workspace: TestWorkspace
let execution: { readonly id: string; readonly trace_id: string }
let logs: string[]
let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-trace-'))
  logs = ['api.log', 'worker.log'].map((name) => join(inject('tenon').logs, name))
  workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const fn = unique('fn')
  await deployed(workspace, 'export default () => 1', {}, fn)
  const flow = await executions.publish(
    `  - run: { call: function.invoke, with: { id: ${fn}, input: {} } }\n`,
  )
  const path = `${workspace.flows}/definitions/${flow}/executions`
  const headers = { 'x-request-id': requestId }
  execution = (await call('POST', path, { as: workspace.operator, body: {}, headers })).body
  await executions.ended(execution.id)
  await eventually(async () => {
    const text = await readFile(logs[1] ?? '', 'utf8')
    return (
      text.split('\n').some((line) => line.includes(execution.id) && line.includes('"completed"')) ||
      undefined
    )
  })
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const env = () => operatorEnv(workspace)

const story = async (id: string, more: readonly string[] = [], input = ''): Promise<readonly Shown[]> => {
  const { code, stdout, stderr } = await runCommand(['trace', id, '--json', ...more], { env: env(), input })
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

test('request: its lines and records of all processes, in the order of time', async () => {
  const told = await eventually(async () => {
    const found = await story(requestId, ['--logs', ...logs])
    return found.filter(({ from }) => from === 'audit').length === 2 ? found : undefined
  })
  expect(told.map(({ time }) => time)).toEqual(told.map(({ time }) => time).toSorted())
  for (const entry of told)
    expect(entry).toMatchObject({ request_id: requestId, trace_id: execution.trace_id })
  const what = new Set(told.map(({ from, what }) => `${from}: ${what}`))
  expect(what).toEqual(
    new Set([
      ...['api: request', 'worker: activity', 'worker: execution'],
      ...['record: execution', 'record: function run', 'audit: execution.create', 'audit: function.invoke'],
    ]),
  )
})

test.each([
  ['trace', () => execution.trace_id],
  ['execution', () => execution.id],
])('%s: tells the same story as its request', async (_what, id) => {
  expect(await story(id(), ['--logs', ...logs])).toEqual(await story(requestId, ['--logs', ...logs]))
})

test('logs on the standard input, with prefixes of a collector: the same lines, without credentials', async () => {
  const texts = await Promise.all(logs.map((file) => readFile(file, 'utf8')))
  const input = texts.join('').replaceAll(/^/gm, 'pod-1 stdout F ')
  const read = await runCommand(['trace', requestId, '--json', '--no-records', '--logs', '-'], {
    env: {},
    input,
  })
  const own = (await story(requestId, ['--logs', ...logs])).filter(
    ({ from }) => from === 'api' || from === 'worker',
  )
  expect(JSON.parse(read.stdout)).toEqual(own)
})

test('table: one line for each entry; control characters of callers do not reach the terminal', async () => {
  const line = {
    time: '2026-01-02T03:04:05.678Z',
    process: 'api',
    msg: 'request',
    request_id: 'r',
    trace_id: 't',
  }
  const file = join(dir, 'api.log')
  await writeFile(
    file,
    `${JSON.stringify({ ...line, method: 'GET', path: '/v1/\u001b[2J', status: 404, ms: 1.5 })}\nnot json\n`,
  )
  const { stdout } = await runCommand(['trace', 'r', '--no-records', '--logs', file], { env: {} })
  expect(stdout.split('\n')).toEqual([
    'TIME          TENANT  FROM  WHAT     STATUS  MS   REQUEST  ABOUT',
    '03:04:05.678          api   request  404     1.5  r        GET /v1/\ufffd[2J',
    '',
  ])
})

test('trace that clients of two tenants share: each entry names its tenant, and --tenant shows those of one', async () => {
  const other = await createTestWorkspace()
  const tenants = [workspace.tenantId, other.tenantId]
  const traceId = randomBytes(16).toString('hex')
  const ids = [unique('r'), unique('r')]
  const ask = async (of: TestWorkspace, id = '') => {
    const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, 'x-request-id': id }
    const body = { workspace_id: of.workspaceId, kind: 'anon', name: 'a' }
    expect((await call('POST', '/v1/api-keys', { as: of.operator, body, headers })).status).toBe(201)
    expect((await call('GET', '/v1/collections', { as: of.service, headers })).status).toBe(200)
  }
  await Promise.all([ask(workspace, ids[0]), ask(other, ids[1])])
  const logged = ['--logs', logs[0] ?? '']
  await eventually(async () => {
    const lines = (await readFile(logs[0] ?? '', 'utf8')).split('\n').filter((text) => text.includes(traceId))
    return lines.length === 4 ? true : undefined
  })
  const all = await eventually(async () => {
    const found = await story(ids[0] ?? '', logged)
    return found.length === 6 ? found : undefined
  })
  for (const [n, tenant] of tenants.entries()) {
    const own = await story(ids[0] ?? '', [...logged, '--tenant', tenant])
    expect(own.map(({ from, request_id }) => [from, request_id]).toSorted()).toEqual(
      ['api', 'audit'].map((from) => [from, ids[n]]),
    )
    expect(own).toEqual(all.filter((entry) => entry.tenant === tenant))
  }
})

test('logs larger than the memory: the lines of the request', async () => {
  const file = join(dir, 'large.log')
  const line = { time: '2026-01-02T03:04:05.678Z', process: 'api', msg: 'request', trace_id: 't', path: '/' }
  const lines = (n: number) => `${JSON.stringify({ ...line, request_id: `r${n}`, trace_id: `t${n}` })}\n`
  const out = createWriteStream(file)
  for (let n = 0; n < 400_000; n += 1_000) {
    const part = Array.from({ length: 1_000 }, (_none, k) => lines(n + k)).join('')
    if (!out.write(part)) await once(out, 'drain')
  }
  out.end(lines(400_000))
  await once(out, 'finish')
  const child = spawn(
    process.execPath,
    [resolve('stack/bootstrap.mjs'), 'trace', 'r400000', '--no-records', '--json', '--logs', file],
    {
      env: { ...process.env, NODE_OPTIONS: '--max-old-space-size=64' },
    },
  )
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  expect(code, stderr).toBe(0)
  expect(JSON.parse(stdout)).toHaveLength(1)
})

test('unknown id: an error that names the logs', async () => {
  const { code, stderr } = await runCommand(['trace', 'req_none', '--no-records', '--logs', ...logs], {
    env: {},
  })
  expect([code, stderr]).toEqual([1, `No line is about req_none (${logs.join(', ')}).\n`])
})
