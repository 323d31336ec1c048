// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The status of an execution that has ended: it never changes, one event says it, and a rerun does the interrupted step again. */

import { afterEach, beforeEach, expect, test } from 'vitest'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { BlockingServer } from '../../support/servers/blocking-server.ts'
import { repeated } from '../../support/stack/soak.ts'
import { withRawClient } from '../../support/stack/temporal.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const RUNS = repeated(20, 50)
const ENDS = ['completed', 'faulted', 'cancelled']

let workspace: TestWorkspace
let executions: Executions
let server: BlockingServer
beforeEach(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  server = await BlockingServer.open()
  await configure(workspace, { egress: { allow: [server.host] } })
})
afterEach(() => server.close())

const stepOf = ({ steps }: Shown, name: string): Shown =>
  steps.find((step: { name: string }) => step.name === name)

/** The workflow has ended in Temporal: nothing writes the record any more. */
const closed = (workflowId: string) =>
  withRawClient((client) =>
    eventually(async () => {
      const { status } = await client.workflow.getHandle(workflowId).describe()
      return status.name === 'RUNNING' ? undefined : status.name
    }),
  )

/** The events of the execution as a whole that say its end. */
const endsOf = async (id: string): Promise<string[]> => {
  const rows = await asSuperuser<{ what: string }>(
    'select what from tenon.execution_events where execution_id = $1 and step is null and what = any($2)',
    [id, ENDS],
  )
  return rows.map(({ what }) => what)
}

test(`${RUNS} executions cancelled as the answer of their call arrives: the status stays, Temporal agrees, one event ends each`, async () => {
  const flow = await executions.publish(`  - it: { ${server.taskFor('raced')} }`)
  server.hold('raced')
  const ids = await Promise.all(Array.from({ length: RUNS }, () => executions.start(flow)))
  await eventually(async () => (server.waitingFor('raced') === RUNS ? true : undefined))
  const cancelled = ids.slice(0, RUNS / 2).map((id) => executions.send(id, 'cancel'))
  server.letGo('raced')
  await Promise.all([...cancelled, ...ids.slice(RUNS / 2).map((id) => executions.send(id, 'cancel'))])
  const first = await Promise.all(ids.map((id) => executions.ended(id)))
  const inTemporal = await Promise.all(first.map(({ workflow_id }) => closed(workflow_id)))
  const second = await Promise.all(ids.map((id) => executions.read(id)))
  expect(second.map(({ status, ended_at }) => [status, ended_at])).toEqual(
    first.map(({ status, ended_at }) => [status, ended_at]),
  )
  expect(inTemporal).toEqual(first.map(({ status }) => (status === 'cancelled' ? 'CANCELLED' : 'COMPLETED')))
  for (const [index, id] of ids.entries()) expect(await endsOf(id)).toEqual([first[index].status])
})

test('rerun of a cancelled execution: the step that was interrupted is done again', async () => {
  const flow = await executions.publish(`  - it: { ${server.taskFor('again')} }`)
  server.hold('again')
  const id = await executions.start(flow)
  await server.reached('again')
  await executions.send(id, 'cancel')
  expect((await executions.ended(id)).status).toBe('cancelled')
  server.letGo('again')
  const { body } = await executions.send(id, 'rerun')
  const rerun = await executions.ended(body.id)
  expect([rerun.status, stepOf(rerun, 'it').status]).toEqual(['completed', 'completed'])
  expect(server.requests).toEqual(['again', 'again'])
})
