/** Workers that die while executions hand their places on: the limit holds, and everybody has his turn. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import type { Started } from '../support/start.ts'
import { asSuperuser, call as callAt, eventually, type Reply, type Room } from '../support/tenants.ts'

const RUNS = 30
const LIMIT = 3

let own: OwnPlatform
let started: Started
let room: Room
beforeAll(async () => {
  own = await ownPlatform()
  started = own.started
  room = own.room
}, 120_000)
afterAll(() => own?.end())

const call = (method: string, path: string, options: Parameters<typeof callAt>[2] = {}): Promise<Reply> =>
  callAt(method, path, { ...options, at: started.running })

const SOURCE = `document: { dsl: '1.0.3', namespace: test, name: few, version: '1.0.0' }
concurrency: { limit: ${LIMIT} }
do:
  - begun: { call: collection.create, with: { name: begun, document: { n: '\${ .n }' } } }
  - rest: { wait: { milliseconds: 100 } }
`

interface Now {
  readonly ended: number
  readonly admitted: number
}

async function now(): Promise<Now> {
  const [row] = await asSuperuser<Now>(
    `select (select count(*)::int from tenon.executions where ended_at is not null) as ended,
      (select count(*)::int from tenon.admissions where state = 'admitted') as admitted`,
    [],
    started.running,
  )
  return row ?? { ended: 0, admitted: 0 }
}

/** By the pid that the supervisor knows: only what this test started. */
function killWorker(): void {
  const pid = started.stack.supervisor.pid('worker')
  if (pid !== undefined) process.kill(pid, 'SIGKILL')
}

test('killed three times among thirty: never more than three at once, and each runs once', async () => {
  const as = room.operator
  await call('POST', `${room.flows}/definitions`, { as, body: { source: SOURCE } })
  await call('POST', `${room.flows}/definitions/few/versions`, { as, body: {} })
  const path = `${room.flows}/definitions/few/executions`
  const replies = await Promise.all(
    Array.from({ length: RUNS }, (_, n) => call('POST', path, { as, body: { input: { n } } })),
  )
  expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: RUNS }, () => 201))
  let most = 0
  for (const strike of [2, 9, 18, RUNS]) {
    await eventually(async () => {
      const { ended, admitted } = await now()
      most = Math.max(most, admitted)
      return ended >= strike ? true : undefined
    }, 120_000)
    if (strike < RUNS) killWorker()
  }
  expect(most).toBeLessThanOrEqual(LIMIT)
  const { body } = await call('GET', `${room.flows}/executions?status=completed&page[size]=200`, { as })
  expect(body.data).toHaveLength(RUNS)
  const made = await call('GET', '/v1/collections/begun/documents?page[size]=200', { as: room.service })
  const numbers = made.body.data.map(({ n }: { n: number }) => n).sort((a: number, b: number) => a - b)
  expect(numbers).toEqual(Array.from({ length: RUNS }, (_, n) => n))
}, 300_000)
