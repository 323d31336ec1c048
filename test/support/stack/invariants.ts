/** Checks a platform after faults: the records of everything that ran agree with Temporal, and nothing stands still. */

import type { Client as Temporal } from '@temporalio/client'
import { Client as Database } from 'pg'
import { expect } from 'vitest'
import { findViolations, type Violation } from '../../../src/cli/stack/invariants.ts'
import type { Running } from './start.ts'
import { withRawClient } from './temporal.ts'

/** The reconciler repairs within this time. */
const REPAIRED_MS = 90_000
const AGAIN_MS = 500

/** Waits until no invariant is violated. @throws AssertionError with the violations that are left */
export async function expectInvariants(at: Running, tenants?: readonly string[]): Promise<void> {
  const until = Date.now() + REPAIRED_MS
  let found = await violationsAt(at, tenants)
  while (found.length > 0 && Date.now() < until) {
    await new Promise((done) => setTimeout(done, AGAIN_MS))
    found = await violationsAt(at, tenants)
  }
  expect(found).toEqual([])
}

/** The violations of this moment, however young. */
async function violationsAt(at: Running, tenants?: readonly string[]): Promise<Violation[]> {
  const database = new Database({ connectionString: at.databaseUrl })
  await database.connect()
  try {
    return await withRawClient(
      (temporal: Temporal) =>
        findViolations({ database, temporal, graceSeconds: 0, ...(tenants !== undefined && { tenants }) }),
      at,
    )
  } finally {
    await database.end()
  }
}
