/** Recorded histories replayed with today's bundle: a change that would break runs in flight fails here. */

import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { DeterminismViolationError } from '@temporalio/workflow'
import { beforeAll, expect, inject, test } from 'vitest'
import { binary } from '../../stack/binaries.mjs'
import { executionsOf, publishScheduled, withTemporal } from '../support/schedules.ts'
import { aRoom, call, eventually } from '../support/tenants.ts'

const FOLDER = new URL('histories/', import.meta.url)
type History = Parameters<typeof Worker.runReplayHistory>[1]

let bundle: string
beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR', () => {}) })
  bundle = await readFile(inject('tenon').env['TENON_WORKFLOW_BUNDLE'] ?? '', 'utf8')
})

/** @throws DeterminismViolationError where the code asks for other commands than the history has */
async function replay(history: unknown, workflowId: string): Promise<void> {
  await Worker.runReplayHistory({ workflowBundle: { code: bundle } }, history as History, workflowId)
}

interface Recorded {
  readonly workflow_id: string
  readonly history: {
    events: { activityTaskScheduledEventAttributes?: { activityType: { name: string } } }[]
  }
}

const names = await readdir(FOLDER)

async function read(name: string): Promise<Recorded> {
  return JSON.parse(await readFile(new URL(name, FOLDER), 'utf8'))
}

test('there is a history of each workflow type', () => {
  expect(names).toEqual(
    expect.arrayContaining([
      '0.1.0-flow-hello.json',
      '0.1.0-function-hello.json',
      '0.1.0-provision-tenant.json',
      '0.1.0-flow-trigger.json',
      '0.1.0-registration.json',
    ]),
  )
})

test.each(names)('%s replays', async (name) => {
  const { workflow_id, history } = await read(name)
  await replay(history, workflow_id)
})

test('a history whose commands differ does not: the test above is able to fail', async () => {
  const { workflow_id, history } = await read('0.1.0-flow-hello.json')
  for (const event of history.events) {
    const scheduled = event.activityTaskScheduledEventAttributes
    if (scheduled !== undefined) scheduled.activityType.name = 'somethingElse'
  }
  await expect(replay(history, workflow_id)).rejects.toThrow(DeterminismViolationError)
})

test('runs of the running platform replay too (with TENON_RECORD they are kept)', async () => {
  const room = await aRoom()
  const as = room.operator
  const body = await readFile('flows-dsl/examples/hello.yaml', 'utf8')
  const made = await call('POST', `${room.flows}/definitions`, {
    as,
    body,
    headers: { 'content-type': 'application/yaml' },
  })
  await call('POST', `${room.flows}/definitions/hello/versions`, { as, body: {} })
  const run = await call('POST', `${room.flows}/definitions/${made.body.id}/executions`, {
    as,
    body: { input: { name: 'Ada' } },
    headers: { prefer: 'wait=20' },
  })
  const source = 'export default ({ name }: { name: string }) => `Hello, ${name}!`'
  const deploy = { workspace_id: room.workspaceId, name: 'hello', source }
  await call('POST', '/v1/functions', { as, body: deploy })
  const invoked = await call('POST', '/v1/functions/hello/invoke', {
    as: room.service,
    body: { name: 'Ada' },
  })
  expect(invoked.body).toBe('Hello, Ada!')
  const connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const client = new Client({ connection })
    const query = `TenantId = '${room.tenantId}'`
    const runs = await eventually(async () => {
      const found: string[] = []
      for await (const { workflowId } of client.workflow.list({ query })) found.push(workflowId)
      return found.length >= 4 ? found : undefined
    })
    expect(runs).toContain(run.body.workflow_id)
    for (const workflowId of runs) {
      const history = await download(workflowId)
      await replay(history, workflowId)
      if (process.env['TENON_RECORD']) await keep(workflowId, history, kindOf(workflowId))
    }
  } finally {
    await connection.close()
  }
})

test('what schedules start replays too', async () => {
  const room = await aRoom()
  await publishScheduled(room, 'tick', '{ every: PT1S }')
  await eventually(async () =>
    (await executionsOf(room, 'tick'))[0]?.status === 'completed' ? true : undefined,
  )
  await publishScheduled(room, 'tick', '')
  await withTemporal(async (client) => {
    for (const [type, kind] of Object.entries({
      flowTrigger: 'flow-trigger',
      registration: 'registration',
    })) {
      const query = `TenantId = '${room.tenantId}' and WorkflowType = '${type}' and ExecutionStatus = 'Completed'`
      const workflowId = await eventually(async () => {
        for await (const found of client.workflow.list({ query })) return found.workflowId
        return undefined
      }, 40_000)
      const history = await download(workflowId)
      await replay(history, workflowId)
      if (process.env['TENON_RECORD']) await keep(workflowId, history, kind)
    }
  })
}, 60_000)

/** As an operator gets it: the same JSON that the Temporal UI downloads. */
async function download(workflowId: string): Promise<unknown> {
  const { path } = await binary('temporal')
  const address = inject('tenon').env['TEMPORAL_ADDRESS'] ?? ''
  const args = ['workflow', 'show', '--workflow-id', workflowId, '--output', 'json', '--address', address]
  const { stdout } = await promisify(execFile)(path, args, { maxBuffer: 16 * 1024 * 1024 })
  return JSON.parse(stdout)
}

function kindOf(workflowId: string): string {
  const subject = workflowId.split(':')[2] ?? ''
  if (subject.startsWith('flow_')) return 'flow-hello'
  return subject.startsWith('fn_') ? 'function-hello' : `provision-${subject.replace('-provision', '')}`
}

async function keep(workflowId: string, history: unknown, kind: string): Promise<void> {
  // Who ran it, on which machine, is nobody's business and no part of a replay.
  const text = JSON.stringify({ workflow_id: workflowId, history }, null, 1).replaceAll(
    /\d+@[\w.-]+/g,
    '1@worker',
  )
  await writeFile(new URL(`${process.env['TENON_RECORD']}-${kind}.json`, FOLDER), `${text}\n`)
}
