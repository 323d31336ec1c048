/** Knows who compiles for the verbs: the platform, or this process where no platform is asked. */

import { type ApiClient, ApiError } from '../client.ts'
import type { Fault } from './faults.ts'

/** A flow as a picture; `mermaid` is text for Mermaid. */
interface Drawn {
  readonly mermaid: string
  readonly nodes: readonly object[]
  readonly edges: readonly object[]
}

/** There are no faults where the definition is valid; warnings stop nothing. */
interface Validated {
  readonly faults: readonly Fault[]
  readonly warnings: readonly Fault[]
}

export interface Compiler {
  validate(source: string): Promise<Validated>
  /** @returns the picture, or all faults */
  graph(source: string): Promise<Drawn | readonly Fault[]>
}

/** The platform's own. @param base path of a workspace's flows */
export function remoteCompiler(client: ApiClient, base: string): Compiler {
  return {
    async validate(source) {
      const { faults, warnings } = await client.post<Validated>(`${base}/validate`, source)
      return { faults, warnings }
    },
    async graph(source) {
      try {
        return await client.post<Drawn>(`${base}/graph`, source)
      } catch (error) {
        return faultsOf(error)
      }
    },
  }
}

/** The faults of a definition that was refused. @throws the error, where it says something else */
export function faultsOf(error: unknown): readonly Fault[] {
  if (!(error instanceof ApiError) || !Array.isArray(error.problem['faults'])) throw error
  return error.problem['faults'] as Fault[]
}
