/** Starts that Temporal cannot take: the execution is kept, and a second attempt of the same request starts it. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { startFlow } from '../../../src/features/flows/executions/start-execution.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
let executions: Executions
/** Its starts fail: the server has no such namespace. */
let failing: Platform
let accepting: Platform
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  failing = openInProcessPlatform({ TEMPORAL_NAMESPACE: 'nowhere' })
  accepting = openInProcessPlatform()
})
afterAll(() => Promise.all([failing.close(), accepting.close()]))

test('start that Temporal cannot take: kept as pending; the same start again completes without an error', async () => {
  const flow = await executions.publish("  - did: { set: { n: '${ .n }' } }", {
    more: 'concurrency: { limit: 1 }\n',
  })
  const id = scopeOf(accepting, workspace).newId('run')
  const start = { id, input: { n: 1 }, by: 'test', trigger: { kind: 'manual' } } as const
  await startFlow(scopeOf(failing, workspace), flow, undefined, start)
  expect(await executions.read(id)).toMatchObject({ status: 'pending', error: null })
  await startFlow(scopeOf(accepting, workspace), flow, undefined, start)
  expect(await executions.shown(id, 'completed')).toMatchObject({ error: null, output: { n: 1 } })
})
