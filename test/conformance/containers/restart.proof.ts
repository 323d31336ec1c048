/** All containers are removed and made anew: what was acknowledged is there, and what was under way goes on. */

import { expect, inject, test } from 'vitest'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { call, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'
import { Installation } from './installation.ts'

const { folder, secrets } = inject('containers')
const installation = new Installation(folder, secrets)

test('restart of all containers: documents, objects, events, functions and a waiting execution are there', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const { service: as, operator, workspaceId } = workspace
  const { bucket } = (await call('GET', `/v1/workspaces/${workspaceId}`, { as: operator })).body
  const made = await call('POST', '/v1/collections/notes/documents', { as, body: { text: 'kept' } })
  const headers = { 'content-type': 'text/plain' }
  expect(
    (await call('PUT', `/v1/objects/${bucket}/kept`, { as, body: 'bytes', headers })).status,
  ).toBeLessThan(300)
  await call('POST', '/v1/events/publish', { as, body: { topic: 'kept', data: { n: 1 } } })
  const id = await deployed(workspace, 'export default ({ n }) => n + 1')
  const executions = new Executions(workspace)
  const flow = await executions.publish(
    '  - ask: { approve: { approvers: [role:operator], fourEyes: false } }\n',
  )
  const execution = await executions.start(flow)
  await executions.until(execution, ({ status }) => status === 'waiting')

  const down = await installation.compose('down')
  expect(down.code, down.stderr).toBe(0)
  expect(await installation.containers()).toEqual([])
  await installation.start()

  const document = await call('GET', `/v1/collections/notes/documents/${made.body.id}`, { as })
  expect([document.status, document.body.text]).toEqual([200, 'kept'])
  expect((await call('GET', `/v1/objects/${bucket}/kept`, { as })).body).toBe('bytes')
  expect(await resultOf(as, id, { n: 1 })).toBe(2)
  const heard = await subscribeToEvents(as, 'topic=kept', { 'last-event-id': '0-0' })
  expect((await receivedAtLeast(heard, 1)).map(({ data }) => data.data)).toEqual([{ n: 1 }])
  closeSubscriptions()
  expect((await executions.send(execution, 'approve', { approved: true })).status).toBeLessThan(300)
  await executions.until(execution, ({ status }) => status === 'completed')
})
