/** Crashes and hangs around the change relay: every change is delivered in order, duplicates are recognisable. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Relay } from '../../src/features/events/outbox-relay.ts'
import { Database } from '../../src/infra/postgres/database.ts'
import {
  closeSubscriptions,
  messages,
  type ReceivedEvent,
  subscribeToEvents,
} from '../support/clients/sse.ts'
import { change } from '../support/fixtures/outbox.ts'
import { eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Started } from '../support/stack/start.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
})
afterEach(closeSubscriptions)
afterAll(() => own?.end())

const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, n) => from + n)

const writeChanges = (collection: string, of: readonly number[]) =>
  change(
    workspace,
    of.map((n) => ({ collection, document: { n } })),
    started.running,
  )

/** The numbers of distinct events; a duplicate has the id of the first. */
function distinctNumbers(frames: readonly ReceivedEvent[]): number[] {
  const events = new Map(messages(frames).map(({ data }) => [data.id, data.data.document.n] as const))
  return [...events.values()]
}

const receiveAll = (frames: readonly ReceivedEvent[], count: number) =>
  eventually(
    async () => (distinctNumbers(frames).length >= count ? distinctNumbers(frames) : undefined),
    60_000,
  )

const subscribe = (collection: string) =>
  subscribeToEvents(workspace.service, `topic=collections.${collection}.*`, {}, started.running)

const failures = async () => {
  const log = await readFile(join(own.dir, 'logs', 'worker.log'), 'utf8')
  return log.split('changes of documents wait in the outbox').length - 1
}

test('Valkey hangs during writes: all changes are delivered in order afterwards', async () => {
  const frames = await subscribe('frozen')
  await writeChanges('frozen', numbers(10))
  await receiveAll(frames, 10)
  const before = await failures()
  await whileStopped(started, 'valkey', async () => {
    for (const part of numbers(30)) await writeChanges('frozen', numbers(20, 10 + part * 20))
    await eventually(async () => ((await failures()) > before + 1 ? true : undefined), 40_000)
  })
  expect(await receiveAll(frames, 610)).toEqual(numbers(610))
  // A hanging Valkey does not receive the same batch again at every attempt.
  expect(messages(frames).length).toBeLessThanOrEqual(610 + 500)
})

test('Valkey crashes during writes: no change is lost', async () => {
  const frames = await subscribe('killed')
  await writeChanges('killed', numbers(100))
  await receiveAll(frames, 100)
  killServer(started, 'valkey')
  for (const part of numbers(10)) await writeChanges('killed', numbers(20, 100 + part * 20))
  expect(await receiveAll(frames, 300)).toEqual(numbers(300))
})

test('worker crashes repeatedly during writes: no change is lost', async () => {
  const frames = await subscribe('worker')
  let written = 0
  for (const strike of numbers(repeated(2, 3))) {
    for (const _part of numbers(10)) {
      await writeChanges('worker', numbers(20, written))
      written += 20
    }
    const killed = killServer(started, 'worker')
    await writeChanges('worker', numbers(20, written))
    written += 20
    expect(written).toBe((strike + 1) * 220)
    await eventually(async () => {
      const pid = started.stack.supervisor.pid('worker')
      return pid === undefined || pid === killed ? undefined : true
    })
  }
  expect(await receiveAll(frames, written)).toEqual(numbers(written))
})

test('worker with the leader lease hangs: another one takes over', async () => {
  const frames = await subscribe('hung')
  await writeChanges('hung', numbers(10))
  await receiveAll(frames, 10)
  const { DATABASE_APP_URL = '', REDIS_URL = '' } = started.running.env
  const database = Database.open(DATABASE_APP_URL, () => {}, 2)
  const relay = new Relay(database, REDIS_URL, pino({ level: 'silent' }))
  await whileStopped(started, 'worker', async () => {
    relay.start()
    await writeChanges('hung', numbers(10, 10))
    expect(await receiveAll(frames, 20)).toEqual(numbers(20))
  })
  await relay.close()
  await database.close()
  await writeChanges('hung', numbers(10, 20))
  expect(await receiveAll(frames, 30)).toEqual(numbers(30))
})

test('PostgreSQL crashes: committed and later changes are delivered', async () => {
  const frames = await subscribe('postgres')
  await writeChanges('postgres', numbers(200))
  killServer(started, 'postgres')
  await eventually(
    () =>
      writeChanges('postgres', numbers(200, 200))
        .then(() => true)
        .catch(() => undefined),
    60_000,
  )
  expect(await receiveAll(frames, 400)).toEqual(numbers(400))
})
