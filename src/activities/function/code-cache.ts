/** Versions of functions, which are immutable, so that an invocation does not read its code from the database again. */

import { LRUCache } from 'lru-cache'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { FunctionRunInput } from '../../core/work.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'
import {
  type RunnableVersion,
  type RuntimeConfig,
  readRuntime,
} from '../../features/functions/runtime-config.ts'

export interface RunCode {
  /** Names tenant, workspace, function and version. */
  readonly key: string
  readonly compiled: string
}

export class CodeCache {
  readonly #known = new LRUCache<string, RunnableVersion>({
    maxSize: FUNCTION_LIMITS.codeCacheBytes,
    sizeCalculation: ({ compiled, input_schema, output_schema }) =>
      compiled.length + JSON.stringify([input_schema, output_schema]).length,
  })

  /** @throws Problem `not_found` if the function was deleted */
  async read(
    scope: WorkspaceScope,
    of: FunctionRunInput['function'],
  ): Promise<{
    readonly code: RunCode
    readonly version: RunnableVersion
    readonly runtime: RuntimeConfig
  }> {
    const { tenantId, workspaceId } = scope.ref
    const key = [tenantId, workspaceId, of.id, of.version].join(':')
    const known = this.#known.get(key)
    const { runtime, version = known } = await readRuntime(scope, of, known === undefined)
    if (version === undefined) throw new TypeError('a version must have code')
    if (known === undefined) this.#known.set(key, version)
    return { code: { key, compiled: version.compiled }, version, runtime }
  }
}
