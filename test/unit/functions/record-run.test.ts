/** The record of the end of a run while the database fails. */

import { expect, test } from 'vitest'
import { attachInternals, type ScopeInternals } from '../../../src/access/internals.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { Problem } from '../../../src/core/problem.ts'
import type { ProblemCode } from '../../../src/core/problem-catalogue.ts'
import { completeRun } from '../../../src/features/functions/runs/record-run.ts'

/** Completes a run whose first two writes fail. @returns how many writes there were */
async function writesUntilRecorded(code: ProblemCode): Promise<number> {
  let writes = 0
  const scope = {
    ref: { tenantId: 'ten_1', workspaceId: 'ws_1' },
    batchShared: async () => {
      writes += 1
      if (writes <= 2) throw new Problem(code)
      return [[]]
    },
  } as unknown as WorkspaceScope
  attachInternals(scope, { services: { runWatcher: { notify: () => {} } } } as unknown as ScopeInternals)
  await completeRun(scope, 'run_1', {}, [])
  return writes
}

test('database away for a moment: the end is written as soon as it is back', async () => {
  expect(await writesUntilRecorded('dependency_unavailable')).toBe(3)
})

test('another error: is not repeated', async () => {
  await expect(writesUntilRecorded('internal')).rejects.toMatchObject({ code: 'internal' })
})
