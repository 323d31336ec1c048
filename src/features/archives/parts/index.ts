/** All parts of an archive, in the order of their members: what others refer to comes first. */

import type { Part } from '../part.ts'
import { DOCUMENTS } from './documents.ts'
import { FLOWS } from './flows.ts'
import { FUNCTIONS } from './functions.ts'
import { MCP_SERVERS } from './mcp-servers.ts'
import { OBJECTS } from './objects.ts'
import { SCHEMAS } from './schemas.ts'
import { SECRETS } from './secrets.ts'
import { SETTINGS } from './settings.ts'
import { USERS } from './users.ts'

export const PARTS: readonly Part[] = [
  SETTINGS,
  SECRETS,
  USERS,
  SCHEMAS,
  FUNCTIONS,
  FLOWS,
  MCP_SERVERS,
  DOCUMENTS,
  OBJECTS,
]
