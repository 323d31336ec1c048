/** The list of all limits, by the file that defines them: docs/reference/limits.md and test/contract/limits.test.ts come from it. */

import { ACCESS_LIMITS } from '../access/limits.ts'
import { API_LIMITS } from '../api/limits.ts'
import { CORE_LIMITS } from '../core/limits.ts'
import { ANALYTICS_LIMITS } from '../features/analytics/limits.ts'
import { ARCHIVE_LIMITS } from '../features/archives/limits.ts'
import { BACKGROUND_LIMITS } from '../features/background/limits.ts'
import { COLLECTION_LIMITS } from '../features/collections/limits.ts'
import { EVENT_LIMITS } from '../features/events/limits.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { FUNCTION_LIMITS } from '../features/functions/limits.ts'
import { API_KEY_LIMITS } from '../features/identity/keys/limits.ts'
import { ISSUER_LIMITS } from '../features/identity/limits.ts'
import { SHARED_LIMITS } from '../features/limits.ts'
import { MCP_LIMITS } from '../features/mcp-servers/limits.ts'
import { OBJECT_LIMITS } from '../features/objects/limits.ts'
import { OPENAPI_LIMITS } from '../features/openapi/limits.ts'
import { RETENTION_LIMITS } from '../features/retention/limits.ts'
import { RUN_LIMITS } from '../features/runs/limits.ts'
import { TRIGGER_LIMITS } from '../features/runs/triggers/limits.ts'
import { TENANT_LIMITS } from '../features/tenants/limits.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'

/** A value, or limits of one thing. */
export interface LimitGroup {
  readonly [name: string]: number | string | LimitGroup
}

/** Paths below `src`. */
export const LIMITS: Readonly<Record<string, LimitGroup>> = {
  'core/limits.ts': CORE_LIMITS,
  'infra/limits.ts': INFRA_LIMITS,
  'access/limits.ts': ACCESS_LIMITS,
  'features/identity/limits.ts': ISSUER_LIMITS,
  'api/limits.ts': API_LIMITS,
  'features/limits.ts': SHARED_LIMITS,
  'features/analytics/limits.ts': ANALYTICS_LIMITS,
  'features/identity/keys/limits.ts': API_KEY_LIMITS,
  'features/archives/limits.ts': ARCHIVE_LIMITS,
  'features/background/limits.ts': BACKGROUND_LIMITS,
  'features/collections/limits.ts': COLLECTION_LIMITS,
  'features/events/limits.ts': EVENT_LIMITS,
  'features/flows/limits.ts': FLOW_LIMITS,
  'features/functions/limits.ts': FUNCTION_LIMITS,
  'features/mcp-servers/limits.ts': MCP_LIMITS,
  'features/objects/limits.ts': OBJECT_LIMITS,
  'features/openapi/limits.ts': OPENAPI_LIMITS,
  'features/retention/limits.ts': RETENTION_LIMITS,
  'features/runs/limits.ts': RUN_LIMITS,
  'features/runs/triggers/limits.ts': TRIGGER_LIMITS,
  'features/tenants/limits.ts': TENANT_LIMITS,
}
