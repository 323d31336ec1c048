/** Measures the reads of one tenant while a million expired rows of another are deleted. */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { sized } from '../measure.ts'
import { printReadsBeside } from './reader.ts'

const ROWS = sized(1_000_000, 1_000)

export async function retention({ running }: Started): Promise<void> {
  const [reader, owner] = await Promise.all([createTestWorkspace(running), createTestWorkspace(running)])
  const database = new Client({ connectionString: running.databaseUrl })
  await database.connect()
  await addExpired(database, owner)
  await printReadsBeside(
    reader,
    () => untilDeleted(database, owner),
    (seconds) => `${ROWS} rows deleted in ${seconds} s`,
  )
  await database.end()
}

/** Counts of requests by the minute that are older than any period. */
const addExpired = (database: Client, { tenantId, workspaceId }: TestWorkspace) =>
  database.query(
    `insert into tenon.meters select $1, $2, date_trunc('minute', now()) - interval '1000 days' - n * interval '1 minute',
       1, 0, 0, 0, 0, '{}' from generate_series(1, $3::int) n`,
    [tenantId, workspaceId, ROWS],
  )

async function untilDeleted(database: Client, { workspaceId }: TestWorkspace): Promise<void> {
  await database.query('update tenon.workspaces set retention_due_at = now() where id = $1', [workspaceId])
  for (let left = true; left; await pause(200)) {
    const { rows } = await database.query(
      `select 1 from tenon.meters where workspace_id = $1 and at < now() - interval '999 days' limit 1`,
      [workspaceId],
    )
    left = rows.length > 0
  }
}
