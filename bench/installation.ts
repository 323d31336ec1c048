/** Measures what an installation pays for being operated: each section compares it with and without, in one run. */

import { costs } from './installation/costs.ts'
import { metrics } from './installation/metrics.ts'
import { neighbour } from './installation/neighbour.ts'
import { tracing } from './installation/tracing.ts'
import { workspaces } from './installation/workspaces.ts'
import { runSections } from './sections.ts'

/** Prints all sections, or the named ones. */
export const installation = (names: readonly string[]): Promise<void> =>
  runSections({ costs, metrics, neighbour, tracing, workspaces }, names)
