/** Measures the reads of one tenant while a million expired rows of another are deleted, beside its reads while nothing else runs. */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { type Send, sender } from '../http.ts'
import { figuresOf, print, sized } from '../measure.ts'

const ROWS = sized(1_000_000, 1_000)
const IDLE_MS = sized(15_000, 200)
/** Between two reads, so that they wait for nothing but what they are measured beside. */
const PERIOD_MS = 10

export async function retention({ running }: Started): Promise<void> {
  const [reader, owner] = await Promise.all([createTestWorkspace(running), createTestWorkspace(running)])
  const read = await openReader(reader)
  const database = new Client({ connectionString: running.databaseUrl })
  await database.connect()
  await read(() => false, sized(2_000, 1))
  const idle = await read(() => false, IDLE_MS)
  await addExpired(database, owner)
  let isDone = false
  const done = whenDeleted(database, owner).then(() => {
    isDone = true
  })
  const startedMs = performance.now()
  const beside = await read(() => isDone)
  await done
  const took = (performance.now() - startedMs) / 1_000
  await database.end()
  print(`${ROWS} rows deleted in ${took.toFixed(1)} s`, 'p50 ms', 'p99 ms')
  const [before, during] = [figuresOf(idle), figuresOf(beside)]
  print('read, nothing else', before.p50Ms, before.p99Ms)
  print('read, beside the deletion', during.p50Ms, during.p99Ms)
  print('ratio', during.p50Ms / before.p50Ms, during.p99Ms / before.p99Ms)
}

/** @returns reads a document again and again, until it is told to stop or a time is over: milliseconds of each */
async function openReader({ url, apikey }: TestWorkspace) {
  const send: Send = sender(url, { apikey }, 1)
  const path = '/v1/collections/bench/documents'
  const { id } = JSON.parse(await send('POST', path, '{"n":1}')) as { id: string }
  return async (isOver: () => boolean, ms = Number.POSITIVE_INFINITY): Promise<number[]> => {
    const times: number[] = []
    for (const untilMs = performance.now() + ms; performance.now() < untilMs && !isOver(); ) {
      const begunMs = performance.now()
      await send('GET', `${path}/${id}`)
      times.push(performance.now() - begunMs)
      await pause(PERIOD_MS)
    }
    return times
  }
}

/** Counts of requests by the minute that are older than any period. */
const addExpired = (database: Client, { tenantId, workspaceId }: TestWorkspace) =>
  database.query(
    `insert into tenon.meters select $1, $2, date_trunc('minute', now()) - interval '1000 days' - n * interval '1 minute',
       1, 0, 0, 0, 0, '{}' from generate_series(1, $3::int) n`,
    [tenantId, workspaceId, ROWS],
  )

async function whenDeleted(database: Client, { workspaceId }: TestWorkspace): Promise<void> {
  await database.query('update tenon.workspaces set retention_due_at = now() where id = $1', [workspaceId])
  for (let left = true; left; await pause(200)) {
    const { rows } = await database.query(
      `select 1 from tenon.meters where workspace_id = $1 and at < now() - interval '999 days' limit 1`,
      [workspaceId],
    )
    left = rows.length > 0
  }
}
