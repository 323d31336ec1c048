/** The sources of tools: collections, buckets, functions, flows, events, and results that were too large to return. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Candidate, Source } from '../tool.ts'
import { buckets } from './buckets.ts'
import { collections } from './collections.ts'
import { events } from './events.ts'
import { flows } from './flows.ts'
import { functions } from './functions.ts'
import { results } from './results.ts'
import { runs } from './runs.ts'

export const SOURCES: readonly Source[] = [collections, buckets, functions, flows, runs, events, results]

/** All candidates of a workspace. */
export async function candidatesOf(scope: WorkspaceScope): Promise<Candidate[]> {
  return (await Promise.all(SOURCES.map((source) => source.candidates(scope)))).flat()
}
