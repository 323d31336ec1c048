/** Measures what collections do as a database: related documents, aggregates and searches, deletions of many, and a million documents. */

import { deletions } from './collections/deletions.ts'
import { relations as queries } from './collections/relations.ts'
import { sizes } from './collections/sizes.ts'
import { runSections } from './sections.ts'

/** Prints all sections, or the named ones. */
export const relations = (names: readonly string[]): Promise<void> =>
  runSections({ queries, deletions, sizes }, names)
