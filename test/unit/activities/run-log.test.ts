/** Lines of a run: which of them are stored when its end is recorded. */

import { expect, test } from 'vitest'
import { attachInternals, type ScopeInternals } from '../../../src/access/internals.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { RunLog } from '../../../src/activities/function/run-log.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'

const line = (text: string) => ({ at: 0, level: 'info', text }) as const
const texts = (lines: readonly { readonly text: string }[]) => lines.map(({ text }) => text)

/** A scope whose writes end when the test says so. */
function slowScope() {
  const writes: (() => void)[] = []
  const began = Promise.withResolvers<void>()
  const scope = {
    ref: { tenantId: 'ten_1', workspaceId: 'ws_1' },
    batchShared: () =>
      new Promise<never[]>((done) => {
        writes.push(() => done([]))
        began.resolve()
      }),
    logError: (error: unknown) => {
      throw error
    },
  } as unknown as WorkspaceScope
  attachInternals(scope, { services: { runWatcher: { notify: () => {} } } } as unknown as ScopeInternals)
  return { scope, writes, began: began.promise }
}

test('take: waits for the batch that is being stored, so the end of the run does not come before it', async () => {
  const { scope, writes, began } = slowScope()
  const log = new RunLog(scope, 'run_1')
  log.add(line('early'))
  await began
  log.add(line('late'))
  let isTaken = false
  const lines = log.take().finally(() => {
    isTaken = true
  })
  await new Promise((passed) => setTimeout(passed, 2 * FUNCTION_LIMITS.logFlushMs))
  expect([isTaken, writes.length]).toEqual([false, 1])
  writes[0]?.()
  expect(texts(await lines)).toEqual(['late'])
})

test('lines that were put back: come first again, with the same numbers', async () => {
  const log = new RunLog(slowScope().scope, 'run_1')
  log.add(line('one'))
  const lines = await log.take()
  log.putBack(lines)
  log.add(line('two'))
  const again = await log.take()
  expect(texts(again)).toEqual(['one', 'two'])
  expect(again[0]).toEqual(lines[0])
})
