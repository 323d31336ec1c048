/** A client whose stream of an execution opens after its workspace was suspended: the others see the suspension once. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import type { Feed, FeedSink } from '../../../src/core/bytes.ts'
import { watchExecution } from '../../../src/features/flows/executions/events.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import { createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
let platform: Platform
beforeAll(async () => {
  workspace = await createTestWorkspace()
  platform = openInProcessPlatform()
})
afterAll(() => platform.close())

/** A client that keeps the statuses of all frames. */
class Client implements FeedSink {
  readonly statuses: string[] = []

  send(frame: string): boolean {
    const [, json] = /^data: (.*)$/m.exec(frame) ?? []
    const { status, data } = JSON.parse(json ?? '{}')
    this.statuses.push(status ?? data?.status)
    return true
  }

  async drained(): Promise<void> {}

  end(): void {}
}

test('stream opened on a row that was read before a suspension: no other client is told that it was resumed', async () => {
  const executions = new Executions(workspace)
  const id = await executions.start(await executions.publish('  - rest: { wait: PT1H }'))
  await executions.shown(id, 'waiting')
  const read = () => watchExecution.run(scopeOf(platform, workspace), { ws: workspace.workspaceId, id })
  const [first, late] = [(await read()) as Feed, (await read()) as Feed]
  const [watching, second] = [new Client(), new Client()]
  const stop = [first.open(watching)]
  const shows = (status: string) =>
    eventually(async () => (watching.statuses.at(-1) === status ? true : undefined))
  try {
    await suspendWorkspace(workspace, workspace.operator)
    await shows('suspended')
    stop.push(late.open(second))
    await eventually(async () => (second.statuses.includes('suspended') ? true : undefined))
    await resumeWorkspace(workspace, workspace.operator)
    await shows('running')
    expect(watching.statuses.filter((status) => status === 'suspended')).toHaveLength(1)
    // Its first frame, `ready`, has the state that the others have seen.
    expect(second.statuses[0]).toBe('suspended')
  } finally {
    for (const end of stop) end()
  }
})
