/** Maps the position of an error of a function's code to the developer's files, by the source maps of its version. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { FunctionRunInput } from '../../core/work.ts'
import { findMaps } from '../../features/functions/functions.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import { atPosition, positionIn } from '../../features/functions/source-map.ts'
import { inThread } from '../../features/threads/run-in-thread.ts'

const { cpuMs, waitMs } = FUNCTION_LIMITS.sourceMap

/**
 * @returns the error with `line`, `column` and `file` of the original; the same error if it has no position, or none is
 *   found within `functionSourceMap.waitMs`
 */
export async function withOrigin(
  scope: WorkspaceScope,
  { function: { id, version } }: FunctionRunInput,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof Problem)) return error
  const position = positionIn(error)
  if (position === undefined) return error
  const find = async () => {
    const maps = (await findMaps(scope, id, version)) ?? {}
    const ran = await inThread(scope, 'originalPositions', { maps, positions: [position] }, cpuMs)
    const [origin] = 'value' in ran ? ran.value : []
    return origin === undefined ? error : atPosition(error, origin)
  }
  const late = Promise.withResolvers<Problem>()
  const timer = setTimeout(() => late.resolve(error), waitMs)
  const found = find().catch((cause: unknown) => {
    scope.logError(cause, 'no original position of an error of a function')
    return error
  })
  return Promise.race([found, late.promise]).finally(() => clearTimeout(timer))
}
