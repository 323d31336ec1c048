/** Lines that a run printed: stored with the run, by pages, and followed while it goes on. */

import { afterEach, beforeAll, expect, test } from 'vitest'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToStream,
} from '../../support/clients/sse.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

afterEach(closeSubscriptions)

let workspace: TestWorkspace
let runs: FunctionRuns
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
})

const logsOf = (id: string, run: string) => `/v1/functions/${id}/runs/${run}/logs`

test('lines: in order with level and time, by pages, also of a run that failed', async () => {
  const id = await runs.deploy(
    'prints',
    'export default () => { console.log("one"); console.warn("two"); console.error("three"); throw new Error("x") }',
  )
  const run = (await runs.invoke(id)).body.run_id
  const { body } = await runs.call('GET', logsOf(id, run))
  expect(body.data.map(({ level, text }: Record<string, string>) => [level, text])).toEqual([
    ['info', 'one'],
    ['warn', 'two'],
    ['error', 'three'],
  ])
  expect(Date.parse(body.data[0].at)).toBeGreaterThan(Date.now() - 60_000)
  const first = (await runs.call('GET', `${logsOf(id, run)}?page[size]=2`)).body
  const rest = (await runs.call('GET', `${logsOf(id, run)}?page[size]=2&page[after]=${first.page.next}`)).body
  expect([...first.data, ...rest.data]).toEqual(body.data)
  const foreign = (await runs.list(id, 'page[size]=1')).body.page.next ?? `c1_${btoa('run_x')}`
  expect((await runs.call('GET', `${logsOf(id, run)}?page[after]=${foreign}`)).body.code).toBe(
    'cursor_invalid',
  )
})

test('stream: lines as they come, until the run ends; Last-Event-ID resumes', async () => {
  const id = await runs.deploy(
    'counts',
    `export default async () => {
      for (let n = 1; n <= 3; n++) { console.log("line " + n); await new Promise((d) => setTimeout(d, 700)) }
    }`,
  )
  const run = await runs.start(id)
  await runs.until(id, run, ({ status }) => status === 'running')
  const received = await subscribeToStream(workspace.operator, `${logsOf(id, run)}/stream`)
  const early = await receivedAtLeast(received, 1)
  expect(early[0]?.data).toMatchObject({ seq: 1, level: 'info', text: 'line 1' })
  expect((await runs.read(id, run)).ended_at).toBeNull()
  const end = await eventually(async () => received.find(({ event }) => event === 'end'))
  expect(end.data).toEqual({ code: 'ended' })
  expect(messages(received).map(({ id: seq, data }) => [seq, data.text])).toEqual([
    ['1', 'line 1'],
    ['2', 'line 2'],
    ['3', 'line 3'],
  ])
  const resumed = await subscribeToStream(workspace.service, `/v1/invocations/${run}/logs/stream`, {
    'last-event-id': '2',
  })
  await eventually(async () => resumed.find(({ event }) => event === 'end'))
  expect(messages(resumed).map(({ data }) => data.text)).toEqual(['line 3'])
})

test('stream of a run that is deleted: ends', async () => {
  const id = await runs.deploy('endless', 'export default () => new Promise(() => {})', { timeout: '30s' })
  const run = await runs.start(id)
  await runs.until(id, run, ({ status }) => status === 'running')
  const received = await subscribeToStream(workspace.operator, `${logsOf(id, run)}/stream`)
  await asSuperuser('delete from tenon.function_runs where id = $1', [run])
  const end = await eventually(async () => received.find(({ event }) => event === 'end'))
  expect(end.data.code).toBe('ended')
})

test('hostile lines: stored as text, without what the database cannot hold', async () => {
  const id = await runs.deploy(
    'hostile',
    'export default () => { console.log("a\\u0000b \\ud800 \\r\\ndata: x\\u2028<b>") }',
  )
  const run = (await runs.invoke(id)).headers.get('x-run-id') ?? ''
  const { body } = await runs.call('GET', logsOf(id, run))
  const text = body.data.map((line: { text: string }) => line.text).join('\n')
  expect(text).toContain('data: x')
  expect(text).not.toContain('\u0000')
  const received = await subscribeToStream(workspace.operator, `${logsOf(id, run)}/stream`)
  await eventually(async () => received.find(({ event }) => event === 'end'))
  expect(
    messages(received)
      .map(({ data }) => data.text)
      .join('\n'),
  ).toBe(text)
})
