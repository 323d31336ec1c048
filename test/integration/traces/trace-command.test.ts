/** `tenon trace`: what it finds in the logs of an installation and in its records, and how it prints them. */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
    'TIME          FROM  WHAT     STATUS  MS   REQUEST  ABOUT',
    '03:04:05.678  api   request  404     1.5  r        GET /v1/\ufffd[2J',
    '',
  ])
})

test('unknown id: an error that names the logs', async () => {
  const { code, stderr } = await runCommand(['trace', 'req_none', '--no-records', '--logs', ...logs], {
    env: {},
  })
  expect([code, stderr]).toEqual([1, `No line is about req_none (${logs.join(', ')}).\n`])
})
