/** Executions of a suspended tenant stop and later continue where they stopped, each effect once. */

import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { deploy } from '../../support/clients/idempotency.ts'
import {
  documents,
  functionRuns,
  publish,
  readExecution,
  resume,
  resumeWorkspace,
  start,
  suspend,
  suspendWorkspace,
  waitForStatus,
} from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const FLOWS: Readonly<Record<string, string>> = {
  sleeper: `
  - sleep: { wait: { seconds: 2 } }
  - write: { call: collection.create, with: { name: done, document: { n: '\${ .n }' } } }
`,
  // Waits for longer than a worker uses the state that it has read, perhaps just before.
  patient: `
  - sleep: { wait: { seconds: 5 } }
  - write: { call: collection.create, with: { name: done, document: { n: '\${ .n }' } } }
`,
  busy: `
  - keep:
      for: { each: n, in: .all }
      do:
        - put: { call: collection.create, with: { name: kept, document: { n: '\${ $n }' } } }
`,
  forked: `
  - both:
      fork:
        branches:
          - slow: { do: [{ rest: { wait: { seconds: 2 } } }, { one: { call: collection.create, with: { name: forks, document: { by: slow } } } }] }
          - quick: { do: [{ nap: { wait: { seconds: 1 } } }, { two: { call: collection.create, with: { name: forks, document: { by: quick } } } }] }
          - told: { do: [{ nod: { wait: { seconds: 1 } } }, { say: { call: event.publish, with: { topic: forks, data: 1 } } }] }
`,
  limited: `
  - within:
      try: [{ first: { wait: { seconds: 1 } } }, { second: { wait: { seconds: 2 } } }]
      catch: { retry: { limit: { attempt: { count: 1, duration: PT4S } } } }
`,
  computes: `
  - compute: { call: function.invoke, with: { id: slow, input: {} } }
  - write: { call: collection.create, with: { name: computed, document: { v: '\${ . }' } } }
`,
  sends: `
  - sleep: { wait: { seconds: 1 } }
  - send: { call: http, with: { method: post, endpoint: 'http://127.0.0.1:PORT/', body: { n: 1 } } }
`,
}

const requests: string[] = []
let server: Server
let port: number
beforeAll(async () => {
  port = inject('tenon').echoPorts[3] ?? 0
  server = createServer((request, response) => {
    requests.push(request.method ?? '')
    response.end('{}')
  }).listen(port, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
})
afterAll(() => new Promise((done) => server.close(done)))

async function createWorkspaceWith(...flows: string[]): Promise<TestWorkspace> {
  const workspace = await createTestWorkspace()
  for (const flow of flows)
    await publish(workspace, flow, (FLOWS[flow] ?? '').slice(1).replace('PORT', String(port)))
  return workspace
}

const countDocuments = async ({ tenantId }: TestWorkspace): Promise<number> =>
  (await asSuperuser('select from tenon.documents where tenant_id = $1', [tenantId])).length

/** Waits until no document was written for `ms`, which must begin within 5 s. @returns the number of documents */
async function waitUntilIdle(workspace: TestWorkspace, ms = 3_000): Promise<number> {
  const elapsedMs = stopwatch()
  let sinceMs = Date.now()
  let before = await countDocuments(workspace)
  return eventually(async () => {
    const now = await countDocuments(workspace)
    if (now !== before) {
      ;[before, sinceMs] = [now, Date.now()]
      expect(elapsedMs()).toBeLessThan(5_000)
    }
    return Date.now() > sinceMs + ms ? before : undefined
  })
}

describe('suspended execution', () => {
  test('wait elapses: nothing happens until resume; a neighbour tenant is not affected', async () => {
    const [workspace, neighbour] = await Promise.all([
      createWorkspaceWith('sleeper'),
      createWorkspaceWith('sleeper'),
    ])
    const [id, theirs] = await Promise.all([
      start(workspace, 'sleeper', { n: 1 }),
      start(neighbour, 'sleeper', { n: 1 }),
    ])
    await waitForStatus(workspace, id, 'waiting')
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    expect(await waitUntilIdle(workspace)).toBe(0)
    await waitForStatus(neighbour, theirs, 'completed')
    expect((await readExecution(workspace, id)).status).toBe('suspended')
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed')
    expect(await documents(workspace, 'done')).toMatchObject([{ n: 1 }])
  })

  test('loop of calls: no call after 5 s; after resume each was made once, in order', async () => {
    const workspace = await createWorkspaceWith('busy')
    const all = Array.from({ length: 200 }, (_, n) => n)
    const id = await start(workspace, 'busy', { all })
    await eventually(async () => ((await countDocuments(workspace)) > 20 ? true : undefined))
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    const documentsWhileSuspended = await waitUntilIdle(workspace)
    expect(documentsWhileSuspended).toBeLessThan(200)
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed', 40_000)
    expect((await documents(workspace, 'kept')).map(({ n }: { n: number }) => n)).toEqual(all)
  })

  test('parallel branches: none continues while suspended, all continue after resume', async () => {
    const workspace = await createWorkspaceWith('forked')
    const id = await start(workspace, 'forked')
    await waitForStatus(workspace, id, 'waiting')
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    expect(await waitUntilIdle(workspace)).toBe(0)
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed')
    const by = (await documents(workspace, 'forks')).map((each: { by: string }) => each.by)
    expect(by.sort()).toEqual(['quick', 'slow'])
  })

  test('timeout: does not run while suspended', async () => {
    const workspace = await createWorkspaceWith('limited')
    const id = await start(workspace, 'limited')
    await waitForStatus(workspace, id, 'waiting')
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    await waitUntilIdle(workspace, 4_500)
    await resume(workspace)
    const { steps } = await waitForStatus(workspace, id, 'completed')
    // A second attempt would have been within the time limit.
    expect(steps.map((step: { iteration: number; status: string }) => [step.iteration, step.status])).toEqual(
      Array.from({ length: 3 }, () => [0, 'completed']),
    )
  })

  test('HTTP request: not sent while suspended, then sent once', async () => {
    const workspace = await createWorkspaceWith('sends')
    const id = await start(workspace, 'sends')
    await waitForStatus(workspace, id, 'waiting')
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    await waitUntilIdle(workspace, 2_000)
    expect(requests).toEqual([])
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed')
    expect(requests).toEqual(['POST'])
  })

  test('suspended and resumed repeatedly: stays suspended, continues once', async () => {
    const workspace = await createWorkspaceWith('sleeper')
    const ids = await Promise.all([1, 2, 3, 4].map((n) => start(workspace, 'sleeper', { n })))
    for (let round = 0; round < 3; round++) {
      await suspend(workspace)
      await resume(workspace)
    }
    await suspend(workspace)
    for (const id of ids) await waitForStatus(workspace, id, 'suspended', 5_000)
    expect(await waitUntilIdle(workspace)).toBe(0)
    await resume(workspace)
    for (const id of ids) await waitForStatus(workspace, id, 'completed')
    const numbers = (await documents(workspace, 'done')).map(({ n }: { n: number }) => n)
    expect(numbers.sort()).toEqual([1, 2, 3, 4])
  })

  test('signal lost: its next call is refused and repeated after resume with the same id', async () => {
    const workspace = await createWorkspaceWith('patient')
    const id = await start(workspace, 'patient', { n: 1 })
    await waitForStatus(workspace, id, 'waiting')
    await asSuperuser(
      `update tenon.tenants set state = 'suspended', state_seq = state_seq + 1, suspension_seq = suspension_seq + 1
       where id = $1`,
      [workspace.tenantId],
    )
    expect(await waitUntilIdle(workspace, 7_000)).toBe(0)
    expect((await readExecution(workspace, id)).error).toBeNull()
    const resumedMs = Date.now()
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed')
    const [document] = await documents(workspace, 'done')
    // The id contains the time of the refused attempt: the repeated call would find its effects.
    expect(Number.parseInt(document.id.replaceAll('-', '').slice(0, 12), 16)).toBeLessThan(resumedMs)
  })

  test('workspace suspended: sibling continues; resuming the tenant does not resume the workspace', async () => {
    const workspace = await createWorkspaceWith('sleeper')
    const sibling = await addTestWorkspace(workspace)
    await publish(sibling, 'sleeper', (FLOWS['sleeper'] ?? '').slice(1))
    const [id, theirs] = await Promise.all([
      start(workspace, 'sleeper', { n: 1 }),
      start(sibling, 'sleeper', { n: 2 }),
    ])
    await suspendWorkspace(workspace, workspace.operator)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    await waitForStatus(sibling, theirs, 'completed')
    await suspend(workspace)
    await resume(workspace)
    await waitUntilIdle(workspace, 1_500)
    expect((await readExecution(workspace, id)).status).toBe('suspended')
    await resumeWorkspace(workspace, workspace.operator)
    await waitForStatus(workspace, id, 'completed')
  })
})

describe('function of a suspended tenant', () => {
  const SLOW = 'export default async () => { await new Promise((d) => setTimeout(d, 6_000)); return 7 }'

  test('running: ended within 5 s, the caller gets 403', async () => {
    const workspace = await createTestWorkspace()
    await deploy(workspace, 'slow', SLOW)
    const invoking = call('POST', '/v1/functions/slow/invoke', { as: workspace.service, body: {} })
    await functionRuns(workspace)
    await suspend(workspace)
    const elapsedMs = stopwatch()
    const { status, body } = await invoking
    expect([status, body.code]).toEqual([403, 'tenant_suspended'])
    expect(elapsedMs()).toBeLessThan(5_000)
  })

  test('called by a flow: ended, run again after resume', async () => {
    const workspace = await createWorkspaceWith('computes')
    await deploy(workspace, 'slow', SLOW)
    const id = await start(workspace, 'computes')
    await waitForStatus(workspace, id, 'running')
    await functionRuns(workspace)
    await suspend(workspace)
    await waitForStatus(workspace, id, 'suspended', 5_000)
    await waitUntilIdle(workspace, 5_000)
    await resume(workspace)
    await waitForStatus(workspace, id, 'completed', 30_000)
    expect(await documents(workspace, 'computed')).toMatchObject([{ v: 7 }])
  })
})
