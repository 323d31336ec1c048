/** Deletes flows: their executions stay readable, everything else of them is gone. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const TASKS = '  - a: { set: { n: 1 } }\n  - b: { set: { n: 2 } }\n'

/** How many steps and events an execution has. */
async function recordCounts(id: string): Promise<object | undefined> {
  const counts = ['steps', 'events'].map(
    (what) => `(select count(*)::integer from tenon.execution_${what} where execution_id = $1) as ${what}`,
  )
  return (await asSuperuser(`select ${counts.join(', ')}`, [id]))[0]
}

const remove = ({ flows, operator: as }: TestWorkspace, name: string) =>
  call('DELETE', `${flows}/definitions/${name}`, { as })

async function runOnce(workspace: TestWorkspace) {
  const executions = new Executions(workspace)
  const name = await executions.publish(TASKS)
  const { id } = await executions.ended(await executions.start(name))
  return { name, id: id as string }
}

const publishedSource = (name: string) =>
  `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\nschedule: { webhook: {} }\ndo:\n${TASKS}`

test('flow deleted: its executions stay with their steps and name it; the flow is nowhere else', async () => {
  const workspace = await createTestWorkspace()
  const { flows, operator: as } = workspace
  const { name, id } = await runOnce(workspace)
  const before = (await call('GET', `${flows}/executions/${id}`, { as })).body
  expect((await remove(workspace, name)).status).toBe(200)
  expect((await call('GET', `${flows}/executions/${id}`, { as })).body).toEqual(before)
  expect(before).toMatchObject({ flow_name: name, version: 1, steps: [{ name: 'a' }, { name: 'b' }] })
  expect(await recordCounts(id)).toEqual({ steps: 2, events: 6 })

  const ids = async (filter: string) =>
    (await call('GET', `${flows}/executions${filter}`, { as })).body.data.map((run: { id: string }) => run.id)
  expect(await ids('')).toEqual([id])
  expect(await ids(`?flow=${before.flow_id}`)).toEqual([id])
  expect(await ids(`?flow=${name}`)).toEqual([])
  expect((await call('GET', `${flows}/definitions`, { as })).body.data).toEqual([])
  for (const [method, path, body] of [
    ['GET', ''],
    ['PUT', '', { source: publishedSource(name) }],
    ['POST', '/versions', {}],
    ['GET', '/versions'],
    ['POST', '/executions', {}],
    ['PUT', '/aliases/a', { version: 1 }],
    ['DELETE', ''],
  ] as const)
    for (const flow of [name, before.flow_id]) {
      const reply = await call(method, `${flows}/definitions/${flow}${path}`, { as, ...(body && { body }) })
      expect([method, path, reply.status]).toEqual([method, path, 404])
    }
  expect((await call('POST', `${flows}/executions/${id}/rerun`, { as, body: {} })).status).toBe(404)
})

test('flow deleted: its name and its quotas are free again, and the new flow has no executions', async () => {
  const workspace = await createTestWorkspace()
  const { flows, operator: as } = workspace
  const { name } = await runOnce(workspace)
  await remove(workspace, name)
  await new Executions(workspace).publish(TASKS, { name })
  const listed = await call('GET', `${flows}/definitions/${name}/executions`, { as })
  expect([listed.status, listed.body.data]).toEqual([200, []])
  const { body } = await call('GET', `/v1/quotas?workspace_id=${workspace.workspaceId}`, { as })
  expect([body.quotas.flows.used, body.quotas.flow_versions.used]).toEqual([1, 1])
})

test('executions open: refused with their number; two deletions at once: one succeeds', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const name = await executions.publish('  - a: { wait: PT1H }')
  const [first, second] = await Promise.all([executions.start(name), executions.start(name)])
  const refused = await remove(workspace, name)
  expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('(2)')])
  for (const id of [first, second]) {
    await executions.shown(id, 'waiting')
    await executions.send(id, 'cancel')
    await executions.ended(id)
  }
  const both = await Promise.all([remove(workspace, name), remove(workspace, name)])
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 404])
})

test('published while it is being deleted: the deletion wins, and no trigger stays', async () => {
  const workspace = await createTestWorkspace()
  const name = await new Executions(workspace).publish(TASKS)
  const { flows, operator: as } = workspace
  await call('PUT', `${flows}/definitions/${name}`, { as, body: { source: publishedSource(name) } })
  const deleting = new Client({ connectionString: inject('tenon').databaseUrl })
  await deleting.connect()
  await deleting.query('begin')
  await deleting.query('update tenon.flows set deleted_at = now() where workspace_id = $1', [
    workspace.workspaceId,
  ])
  const published = call('POST', `${flows}/definitions/${name}/versions`, { as, body: {} })
  await eventually(async () => {
    const found = await asSuperuser(
      "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%update flows set latest_version%'",
    )
    return found.length > 0 ? true : undefined
  })
  await deleting.query('commit')
  await deleting.end()
  expect((await published).status).toBe(404)
  expect((await call('GET', `${flows}/triggers`, { as })).body.data).toEqual([])
})
