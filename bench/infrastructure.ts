/** Measures what servers of others cost: each section compares an installation with and without one thing in between, in one run. */

import { apis } from './infrastructure/apis.ts'
import { pooler } from './infrastructure/pooler.ts'
import { temporal } from './infrastructure/temporal.ts'
import { runSections } from './sections.ts'

/** Prints all sections, or the named ones. */
export const infrastructure = (names: readonly string[]): Promise<void> =>
  runSections({ pooler, temporal, apis }, names)
