/** Measures the life of a tenant: creation, moving, backup, and what deletes and encrypts many rows beside a reader of another tenant. */

import { backup } from './lifecycle/backup.ts'
import { creation } from './lifecycle/creation.ts'
import { moving } from './lifecycle/moving.ts'
import { resealing } from './lifecycle/resealing.ts'
import { retention } from './lifecycle/retention.ts'
import { runSections } from './sections.ts'

/** Prints all sections, or the named ones. */
export const lifecycle = (names: readonly string[]): Promise<void> =>
  runSections({ creation, moving, backup, retention, resealing }, names)
