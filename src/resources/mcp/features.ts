/** Which parts of MCP hosting a workspace may use. */

import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'

export type Feature = 'mcp.flow_tools'

/** What holds in a workspace that says nothing of its own. */
const DEFAULTS: Readonly<Record<Feature, boolean>> = { 'mcp.flow_tools': true }

export async function hasFeature(_scope: WorkspaceScope, feature: Feature): Promise<boolean> {
  return DEFAULTS[feature]
}

/** @throws Problem `feature_not_enabled` */
export async function requireFeature(scope: WorkspaceScope, feature: Feature): Promise<void> {
  if (await hasFeature(scope, feature)) return
  throw new Problem('feature_not_enabled', { detail: `${feature} is not enabled in this workspace.` })
}
