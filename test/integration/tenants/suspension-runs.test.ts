/** Executions of a suspended tenant stop and later continue where they stopped, each effect once. */

import { createServer, type Server } from 'node:http'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { deploy } from '../../support/clients/idempotency.ts'
import {
  documents,
  functionRuns,
  publish,
  resume,
  resumeWorkspace,
  runOf,
  shown,
  start,
  suspend,
  suspendWorkspace,
} from '../../support/fixtures/suspension.ts'
import {
  aRoom,
  asSuperuser,
  aWorkspace,
  call,
  eventually,
  type Room,
} from '../../support/fixtures/tenants.ts'

const FLOWS: Readonly<Record<string, string>> = {
  sleeper: `
  - sleep: { wait: { seconds: 2 } }
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

async function createWorkspaceWith(...flows: string[]): Promise<Room> {
  const room = await aRoom()
  for (const flow of flows)
    await publish(room, flow, (FLOWS[flow] ?? '').slice(1).replace('PORT', String(port)))
  return room
}

const countDocuments = async ({ tenantId }: Room): Promise<number> =>
  (await asSuperuser('select from tenon.documents where tenant_id = $1', [tenantId])).length

/** Waits until no document was written for `ms`, which must begin within 5 s. @returns the number of documents */
async function waitUntilIdle(room: Room, ms = 3_000): Promise<number> {
  const startedMs = Date.now()
  let sinceMs = startedMs
  let before = await countDocuments(room)
  return eventually(async () => {
    const now = await countDocuments(room)
    if (now !== before) [before, sinceMs] = [now, Date.now()]
    expect(sinceMs - startedMs).toBeLessThan(5_000)
    return Date.now() > sinceMs + ms ? before : undefined
  })
}

describe('suspended execution', () => {
  test('wait elapses: nothing happens until resume; a neighbour tenant is not affected', async () => {
    const [room, neighbour] = await Promise.all([
      createWorkspaceWith('sleeper'),
      createWorkspaceWith('sleeper'),
    ])
    const [id, theirs] = await Promise.all([
      start(room, 'sleeper', { n: 1 }),
      start(neighbour, 'sleeper', { n: 1 }),
    ])
    await shown(room, id, 'waiting')
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    expect(await waitUntilIdle(room)).toBe(0)
    expect((await runOf(neighbour, theirs)).status).toBe('completed')
    expect((await runOf(room, id)).status).toBe('suspended')
    await resume(room)
    await shown(room, id, 'completed')
    expect(await documents(room, 'done')).toMatchObject([{ n: 1 }])
  })

  test('loop of calls: no call after 5 s; after resume each was made once, in order', async () => {
    const room = await createWorkspaceWith('busy')
    const all = Array.from({ length: 200 }, (_, n) => n)
    const id = await start(room, 'busy', { all })
    await eventually(async () => ((await countDocuments(room)) > 20 ? true : undefined))
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    const documentsWhileSuspended = await waitUntilIdle(room)
    expect(documentsWhileSuspended).toBeLessThan(200)
    await resume(room)
    await shown(room, id, 'completed', 40_000)
    expect((await documents(room, 'kept')).map(({ n }: { n: number }) => n)).toEqual(all)
  }, 60_000)

  test('parallel branches: none continues while suspended, all continue after resume', async () => {
    const room = await createWorkspaceWith('forked')
    const id = await start(room, 'forked')
    await shown(room, id, 'waiting')
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    expect(await waitUntilIdle(room)).toBe(0)
    await resume(room)
    await shown(room, id, 'completed')
    const by = (await documents(room, 'forks')).map((each: { by: string }) => each.by)
    expect(by.sort()).toEqual(['quick', 'slow'])
  })

  test('timeout: does not run while suspended', async () => {
    const room = await createWorkspaceWith('limited')
    const id = await start(room, 'limited')
    await shown(room, id, 'waiting')
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    await waitUntilIdle(room, 4_500)
    await resume(room)
    const { steps } = await shown(room, id, 'completed')
    // A second attempt would have been within the time limit.
    expect(steps.map((step: { iteration: number; status: string }) => [step.iteration, step.status])).toEqual(
      Array.from({ length: 3 }, () => [0, 'completed']),
    )
  })

  test('HTTP request: not sent while suspended, then sent once', async () => {
    const room = await createWorkspaceWith('sends')
    const id = await start(room, 'sends')
    await shown(room, id, 'waiting')
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    await waitUntilIdle(room, 2_000)
    expect(requests).toEqual([])
    await resume(room)
    await shown(room, id, 'completed')
    expect(requests).toEqual(['POST'])
  })

  test('suspended and resumed repeatedly: stays suspended, continues once', async () => {
    const room = await createWorkspaceWith('sleeper')
    const ids = await Promise.all([1, 2, 3, 4].map((n) => start(room, 'sleeper', { n })))
    for (let round = 0; round < 3; round++) {
      await suspend(room)
      await resume(room)
    }
    await suspend(room)
    for (const id of ids) await shown(room, id, 'suspended', 5_000)
    expect(await waitUntilIdle(room)).toBe(0)
    await resume(room)
    for (const id of ids) await shown(room, id, 'completed')
    const numbers = (await documents(room, 'done')).map(({ n }: { n: number }) => n)
    expect(numbers.sort()).toEqual([1, 2, 3, 4])
  })

  test('signal lost: its next call is refused and repeated after resume with the same id', async () => {
    const room = await createWorkspaceWith('sleeper')
    const id = await start(room, 'sleeper', { n: 1 })
    await shown(room, id, 'waiting')
    await asSuperuser(
      `update tenon.tenants set state = 'suspended', state_seq = state_seq + 1, suspension_seq = suspension_seq + 1
       where id = $1`,
      [room.tenantId],
    )
    expect(await waitUntilIdle(room, 4_000)).toBe(0)
    expect((await runOf(room, id)).error).toBeNull()
    const resumedMs = Date.now()
    await resume(room)
    await shown(room, id, 'completed')
    const [document] = await documents(room, 'done')
    // The id contains the time of the refused attempt: the repeated call would find its effects.
    expect(Number.parseInt(document.id.replaceAll('-', '').slice(0, 12), 16)).toBeLessThan(resumedMs)
  })

  test('workspace suspended: sibling continues; resuming the tenant does not resume the workspace', async () => {
    const room = await createWorkspaceWith('sleeper')
    const sibling = await aWorkspace(room)
    await publish(sibling, 'sleeper', (FLOWS['sleeper'] ?? '').slice(1))
    const [id, theirs] = await Promise.all([
      start(room, 'sleeper', { n: 1 }),
      start(sibling, 'sleeper', { n: 2 }),
    ])
    await suspendWorkspace(room, room.operator)
    await shown(room, id, 'suspended', 5_000)
    await shown(sibling, theirs, 'completed')
    await suspend(room)
    await resume(room)
    await waitUntilIdle(room, 1_500)
    expect((await runOf(room, id)).status).toBe('suspended')
    await resumeWorkspace(room, room.operator)
    await shown(room, id, 'completed')
  })
})

describe('function of a suspended tenant', () => {
  const SLOW = 'export default async () => { await new Promise((d) => setTimeout(d, 6_000)); return 7 }'

  test('running: ended within 5 s, the caller gets 403', async () => {
    const room = await aRoom()
    await deploy(room, 'slow', SLOW)
    const invoking = call('POST', '/v1/functions/slow/invoke', { as: room.service, body: {} })
    await functionRuns(room)
    await suspend(room)
    const suspendedMs = performance.now()
    const { status, body } = await invoking
    expect([status, body.code]).toEqual([403, 'tenant_suspended'])
    expect(performance.now() - suspendedMs).toBeLessThan(5_000)
  })

  test('called by a flow: ended, run again after resume', async () => {
    const room = await createWorkspaceWith('computes')
    await deploy(room, 'slow', SLOW)
    const id = await start(room, 'computes')
    await shown(room, id, 'running')
    await functionRuns(room)
    await suspend(room)
    await shown(room, id, 'suspended', 5_000)
    await waitUntilIdle(room, 5_000)
    await resume(room)
    await shown(room, id, 'completed', 30_000)
    expect(await documents(room, 'computed')).toMatchObject([{ v: 7 }])
  }, 60_000)
})
