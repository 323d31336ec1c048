/** All resources of other systems, in the order in which a creation makes them. */

import { BUCKET } from './bucket.ts'
import type { Resource } from './resource.ts'

export const RESOURCES = [BUCKET] as const satisfies readonly Resource[]
