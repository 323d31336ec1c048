/** The providers of tools: over parts of the workspace, over results that were too large to return, and over sources outside the platform. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Candidate, ToolProvider } from '../tool.ts'
import { buckets } from './buckets.ts'
import { collections } from './collections.ts'
import { events } from './events.ts'
import { executions } from './executions.ts'
import { flows } from './flows.ts'
import { functions } from './functions.ts'
import { remote } from './remote.ts'
import { results } from './results.ts'

export const TOOL_PROVIDERS: readonly ToolProvider[] = [
  collections,
  buckets,
  functions,
  flows,
  executions,
  events,
  results,
  remote,
]

/**
 * The candidates of a workspace.
 * @param chosen those that are needed, by `candidate` or by name; others may be among the result. Default: all
 */
export async function readCandidates(
  scope: WorkspaceScope,
  chosen?: readonly string[],
): Promise<Candidate[]> {
  return (await Promise.all(TOOL_PROVIDERS.map((provider) => provider.candidates(scope, chosen)))).flat()
}
