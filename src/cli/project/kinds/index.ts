/** All kinds of resources of a project. */

import { clients } from './clients.ts'
import { collections } from './collections.ts'
import { flows } from './flows.ts'
import { functions } from './functions.ts'
import type { Kind } from './kind.ts'
import { mcp } from './mcp.ts'
import { secrets } from './secrets.ts'
import { settings } from './settings.ts'

/** In the order in which they are written: each may need those before it. Settings switch on tools of flows. */
export const KINDS: readonly Kind[] = [collections, secrets, functions, flows, settings, mcp, clients]
