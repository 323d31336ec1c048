/** Starts that Temporal rejects: the execution is faulted and has no slot; a second attempt of the same request starts it. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { startFlow } from '../../../src/features/flows/executions/start-execution.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { asSuperuser, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
let executions: Executions
/** Its starts are rejected: the server has no such namespace. */
let rejecting: Platform
let accepting: Platform
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  rejecting = openInProcessPlatform({ TEMPORAL_NAMESPACE: 'nowhere' })
  accepting = openInProcessPlatform()
})
afterAll(() => Promise.all([rejecting.close(), accepting.close()]))

test('start rejected by Temporal: faulted without a slot; the same start again completes without an error', async () => {
  const flow = await executions.publish("  - did: { set: { n: '${ .n }' } }", {
    more: 'concurrency: { limit: 1 }\n',
  })
  const id = scopeOf(accepting, workspace).newId('run')
  const start = { id, input: { n: 1 }, by: 'test', trigger: { kind: 'manual' } } as const
  await expect(startFlow(scopeOf(rejecting, workspace), flow, undefined, start)).rejects.toThrow('nowhere')
  expect(await executions.read(id)).toMatchObject({
    status: 'faulted',
    error: { title: 'The execution could not be started' },
  })
  expect(await asSuperuser('select state from tenon.run_slots where run_id = $1', [id])).toEqual([])
  await startFlow(scopeOf(accepting, workspace), flow, undefined, start)
  expect(await executions.shown(id, 'completed')).toMatchObject({ error: null, output: { n: 1 } })
})
