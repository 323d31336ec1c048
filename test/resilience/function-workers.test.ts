/** Worker crashes during a function: the caller gets an error, the function is not run again, no process remains. */

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, pidOf, sharedPlatform } from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'
import { stopwatch } from '../support/stopwatch.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let call: OwnPlatform['call']
beforeAll(async () => {
  own = await sharedPlatform()
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())

/** Function processes whose parent is the worker. */
async function functionProcessesOf(worker: number): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid=,ppid=,args='], { maxBuffer: 1 << 24 })
  return stdout.split('\n').flatMap((line) => {
    const [, pid = '', ppid, args = ''] = /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? []
    return Number(ppid) === worker && args.includes('--deny-net') ? [pid] : []
  })
}

test('function longer than the heartbeat timeout: completes', async () => {
  const source =
    'export default async () => { await new Promise((d) => setTimeout(d, 13_000)); return "done" }'
  const body = { workspace_id: workspace.workspaceId, name: 'long', source, config: { timeout: '30s' } }
  await call('POST', '/v1/functions', { as: workspace.operator, body })
  const reply = await call('POST', '/v1/functions/long/invoke', { as: workspace.service, body: {} })
  expect([reply.status, reply.body]).toEqual([200, 'done'])
})

test('worker killed during a function: 502 run_cut_off, its processes end, later calls work', async () => {
  const deploy = (name: string, source: string) =>
    call('POST', '/v1/functions', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, name, source, config: { timeout: '60s' } },
    })
  await deploy('waits', 'export default () => new Promise(() => {})')
  await deploy('one', 'export default () => 1')
  const running = call('POST', '/v1/functions/waits/invoke', { as: workspace.service, body: {} })
  await new Promise((done) => setTimeout(done, 1_500))
  const before = await functionProcessesOf(pidOf(started, 'worker'))
  expect(before.length).toBeGreaterThan(0)
  const elapsedMs = stopwatch()
  killServer(started, 'worker')
  const reply = await running
  expect([reply.status, reply.body.code]).toEqual([502, 'run_cut_off'])
  expect(reply.body.detail).toMatch(/worker .* was lost/)
  expect(elapsedMs()).toBeLessThan(25_000)
  expect(before.filter((each) => existsSync(`/proc/${each}`))).toEqual([])
  const one = await eventually(async () => {
    const answer = await call('POST', '/v1/functions/one/invoke', { as: workspace.service, body: {} })
    return answer.status === 200 ? answer.body : undefined
  }, 30_000)
  expect(one).toBe(1)
})
