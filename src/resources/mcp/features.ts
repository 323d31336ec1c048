/** Which parts of MCP hosting a workspace has switched on (POST /v1/services/configure). */

import { Problem } from '../../core/problem.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

type Feature = 'mcp.flow_tools'

/** @param scope of an admin */
export async function hasFeature(scope: WorkspaceScope, feature: Feature): Promise<boolean> {
  const row = await scope.row<{ on: boolean }>(
    sql`select experimental @> ${JSON.stringify([feature])}::jsonb as on from services`,
  )
  return row?.on ?? false
}

/** @throws Problem `feature_not_enabled` */
export async function requireFeature(scope: WorkspaceScope, feature: Feature): Promise<void> {
  if (await hasFeature(scope, feature)) return
  throw new Problem('feature_not_enabled', { detail: `${feature} is not switched on in this workspace.` })
}
