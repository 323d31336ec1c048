/** Maps the position of an error of a function's code to the developer's files, by the source maps of its version. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput } from '../../core/work.ts'
import { findMaps } from '../../features/functions/functions.ts'
import { inThread } from '../../features/threads/run-in-thread.ts'

/** @returns the error with `line`, `column` and `file` of the original; the same error if it has no position, or none is found */
export async function withOrigin(
  scope: WorkspaceScope,
  { function: { id, version } }: FunctionRunInput,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof Problem)) return error
  const { line, column, ...own } = Object(error.members['error']) as Readonly<Record<string, unknown>>
  if (typeof line !== 'number' || typeof column !== 'number') return error
  try {
    const maps = (await findMaps(scope, id, version)) ?? {}
    const asked = { maps, positions: [{ line, column }] }
    const ran = await inThread(scope, 'originalPositions', asked, LIMITS.functionSourceMap.cpuMs)
    const [origin] = 'value' in ran ? ran.value : []
    return origin === undefined ? error : error.with({ error: { ...own, ...origin } })
  } catch (cause) {
    scope.logError(cause, 'no original position of an error of a function')
    return error
  }
}
