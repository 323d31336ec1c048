/**
 * A workspace with a thousand executions that wait, a stream, an upload and an import that are under way: deleted and restored, each execution goes on;
 * purged, nothing is left, and the neighbour works all the time. `npm run test:soak -- deletion`, with TENON_EXECUTIONS for another number.
 */

import { afterAll, expect, test } from 'vitest'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { publish, start } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { withReadingClient } from '../../support/stack/temporal.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const EXECUTIONS = Number(process.env['TENON_EXECUTIONS'] ?? 1_000)
const LANES = 16
const MINUTES = 60_000

afterAll(closeSubscriptions)

async function inLanes(count: number, work: (n: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

const countStates = async ({ workspaceId }: TestWorkspace): Promise<Record<string, number>> => {
  const rows = await asSuperuser<{ status: string; n: number }>(
    'select status, count(*)::int as n from tenon.executions where workspace_id = $1 group by 1',
    [workspaceId],
  )
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]))
}

/** What is under way when the deletion comes: each ends with a refusal, and none with an answer that is not true. */
async function busy(workspace: TestWorkspace) {
  const { service: as } = workspace
  await subscribeToEvents(as, 'topic=collections.notes.created')
  const created = await call('POST', '/v1/uploads', {
    as,
    headers: {
      ...{ 'tus-resumable': '1.0.0', 'upload-length': '1000000' },
      'upload-metadata': `bucket ${btoa(await bucketOf(workspace))},key ${btoa('large.bin')}`,
    },
  })
  expect(created.status).toBe(201)
  let isOver = false
  const imports = (async () => {
    for (let n = 0; !isOver; n += 1) {
      const body = Array.from({ length: 200 }, (_, line) => JSON.stringify({ n, line })).join('\n')
      const headers = { 'content-type': 'application/x-ndjson' }
      const reply = await call('POST', '/v1/collections/notes/import', { as, headers, body })
      if (reply.status >= 400) return reply.body.code
    }
    return 'not refused'
  })()
  return async () => {
    const code = await Promise.race([imports, new Promise((done) => setTimeout(() => done('late'), 10_000))])
    isOver = true
    return code
  }
}

test(
  'workspace with a thousand executions: deleted, restored, each ends; deleted, purged, nothing is left',
  async () => {
    const workspace = await createTestWorkspaceWithStorage()
    const neighbour = await addTestWorkspaceWithStorage(workspace)
    const { operator: as, workspaceId } = workspace
    const path = `/v1/workspaces/${workspaceId}`
    for (const one of [workspace, neighbour])
      await publish(one, 'naps', '  - nap: { wait: { seconds: 120 } }\n  - after: { set: { done: true } }\n')
    await inLanes(EXECUTIONS, () => start(workspace, 'naps'))
    const ofNeighbour = await start(neighbour, 'naps')
    const refusal = await busy(workspace)

    const first = await call('DELETE', path, { as })
    expect(first.status).toBe(202)
    expect(await refusal()).toBe('workspace_suspended')
    expect((await call('POST', `${path}/restore`, { as })).body.state).toBe('active')
    await eventually(
      async () => ((await countStates(workspace))['completed'] === EXECUTIONS ? true : undefined),
      15 * MINUTES,
    )

    await inLanes(EXECUTIONS, () => start(workspace, 'naps'))
    const { body: job } = await call('DELETE', `${path}?grace_days=0`, { as })
    const done = await eventually(async () => {
      const { body } = await call('GET', `/v1/operations/${job.id}`, { as })
      return body.finished_at === null ? undefined : body
    }, 20 * MINUTES)
    expect([done.state, done.error, done.result.after]).toEqual(['succeeded', null, {}])
    const left = await withReadingClient((client) => client.workflow.count(`WorkspaceId = '${workspaceId}'`))
    expect([left.count, await countStates(workspace)]).toEqual([0, {}])
    const theirs = await call('GET', `${neighbour.flows}/executions/${ofNeighbour}`, { as })
    expect(['running', 'waiting', 'completed']).toContain(theirs.body.status)
  },
  60 * MINUTES,
)
