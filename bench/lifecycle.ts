/** Measures the life of a tenant: its creation beside a bare workflow, a deletion of expired rows beside a reader of another tenant. */

import { creation } from './lifecycle/creation.ts'
import { retention } from './lifecycle/retention.ts'
import { runSections } from './sections.ts'

/** Prints all sections, or the named ones. */
export const lifecycle = (names: readonly string[]): Promise<void> =>
  runSections({ creation, retention }, names)
