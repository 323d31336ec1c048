/** How many hosted servers a workspace may have. */

import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

/** The one place that knows the number. */
export const serversAllowed = (): number => LIMITS.mcpServersPerWorkspace

export function overQuota(used: number): Problem {
  const limit = serversAllowed()
  return new Problem('quota_exceeded', {
    detail: `The workspace has ${used} of ${limit} MCP servers.`,
    members: { quota: 'mcp_servers', limit, used },
  })
}
