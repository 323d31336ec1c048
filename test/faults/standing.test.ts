/** Runs that stand still while workers die, and runs that are told more than a history takes; on a stack of our own. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import { noting, Runs } from '../support/runs.ts'
import type { Started } from '../support/start.ts'
import { unique } from '../support/tenants.ts'

/** The server's own bound is 10,000. */
const SIGNALS_MAX = 100

let own: OwnPlatform
let started: Started
let runs: Runs
beforeAll(async () => {
  own = await ownPlatform({
    servers: { TEMPORAL_DYNAMIC_CONFIG: `history.maximumSignalsPerExecution=${SIGNALS_MAX}` },
  })
  started = own.started
  runs = new Runs(own.room, started.running)
}, 180_000)
afterAll(() => own?.end())

const go = { event: { type: 'go', data: 1 } }
const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'

test('a run that is paused stays so when its worker is killed, and goes on with all that it has heard', async () => {
  const ledger = unique('c')
  const id = await runs.start(await runs.publish(`${LISTEN}\n  - a: { ${noting('a', ledger)} }`))
  await runs.shown(id, 'waiting')
  expect((await runs.send(id, 'pause', { reason: 'Wait.' })).status).toBe(200)
  await runs.send(id, 'signal', go)
  const pid = started.stack.supervisor.pid('worker')
  if (pid === undefined) throw new Error('the worker does not run')
  process.kill(pid, 'SIGKILL')
  // Only another worker can take the patch: it has been through the whole history by then.
  const patched = await runs.until(id, () => started.stack.supervisor.pid('worker') !== undefined)
  expect(patched).toMatchObject({ status: 'suspended', suspended_because: 'paused', pause_reason: 'Wait.' })
  const mended = async () => (await runs.send(id, 'patch-data', { context: { x: 1 } })).status
  let status = await mended()
  for (let attempt = 0; status === 503 && attempt < 20; attempt++) status = await mended()
  expect(status).toBe(200)
  expect(await runs.ledger(ledger)).toEqual([])
  await runs.send(id, 'resume')
  expect(await runs.ended(id)).toMatchObject({ status: 'completed' })
  expect(await runs.ledger(ledger)).toEqual(['a'])
}, 120_000)

test('a run that has heard as many events as it can says so, and goes on', async () => {
  const id = await runs.start(await runs.publish(LISTEN))
  await runs.shown(id, 'waiting')
  const noise = { event: { type: 'noise' } }
  for (let sent = 0; sent < SIGNALS_MAX; sent++)
    expect((await runs.send(id, 'signal', noise)).status).toBe(202)
  expect(await runs.send(id, 'signal', go)).toMatchObject({
    status: 409,
    body: { code: 'state_conflict', detail: expect.stringContaining('as many events') },
  })
  // Commands that are answered are not signals.
  expect(await runs.send(id, 'pause')).toMatchObject({ status: 200 })
  await runs.send(id, 'resume')
  await runs.send(id, 'cancel')
  expect(await runs.ended(id)).toMatchObject({ status: 'cancelled' })
}, 120_000)
