/** All parts of an archive, in the order of their members: what others refer to comes first. */

import type { Part, TenantPart } from '../part.ts'
import { DOCUMENTS } from './documents.ts'
import { FLOWS } from './flows.ts'
import { FUNCTIONS } from './functions.ts'
import { MCP_SERVERS } from './mcp-servers.ts'
import { OBJECTS } from './objects.ts'
import { SCHEMAS } from './schemas.ts'
import { SECRETS, TENANT_SECRETS } from './secrets.ts'
import { SETTINGS, TENANT_SETTINGS } from './settings.ts'
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

/** Those of a tenant itself; its workspaces follow. */
export const TENANT_PARTS: readonly TenantPart[] = [TENANT_SETTINGS, TENANT_SECRETS]
