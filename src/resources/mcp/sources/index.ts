/** SOURCES: all that a tool of a hosted server can be made of. */

import type { WorkspaceScope } from '../../../platform/scope.ts'
import type { Candidate } from '../tool.ts'
import { collections } from './collections.ts'
import { events } from './events.ts'
import { flows } from './flows.ts'
import { functions } from './functions.ts'
import type { Source } from './source.ts'

export const SOURCES: readonly Source[] = [collections, functions, flows, events]

/** Everything that a workspace could publish at this moment. */
export async function candidatesOf(scope: WorkspaceScope): Promise<Candidate[]> {
  return (await Promise.all(SOURCES.map((source) => source.candidates(scope)))).flat()
}
