/** The rows of `PRIVILEGES` that hosted MCP servers have. */

import { ADMINS, type Role, VIEWERS } from '../core/policy.ts'
import type { Privilege } from './privilege-kinds.ts'

const ADMIN = ['workspace_admin'] as const satisfies readonly Role[]
const SERVICE = ['service'] as const satisfies readonly Role[]

export const MCP_PRIVILEGES = {
  'mcp.hosted': {
    module: 'mcp/hosted/hosted-access',
    opener: 'inAnyState',
    to: ADMIN,
    reason: 'Serves a client whose token names this server.',
  },
  'mcp.calls': {
    module: 'features/mcp-servers/calls/call-tool',
    opener: 'inRole',
    from: ADMINS,
    to: SERVICE,
    reason: 'Runs a data operation for a tool, which can do no more than a service key.',
  },
  'mcp.results': {
    module: 'features/mcp-servers/calls/kept-results',
    opener: 'inRole',
    from: ADMINS,
    to: SERVICE,
    reason: 'Keeps large results, which hold documents, for the principal of the call.',
  },
  'mcp.collections': {
    module: 'features/mcp-servers/tool-providers/collections',
    opener: 'inRole',
    from: VIEWERS,
    to: SERVICE,
    reason: 'Lists names of collections that were never declared.',
  },
  'mcp.watches': {
    module: 'features/mcp-servers/watch-resources',
    opener: 'inRole',
    from: ADMINS,
    to: SERVICE,
    reason: 'Tells clients that a document or an object has changed, and not how.',
  },
  'mcp.images': {
    module: 'features/mcp-servers/images/image-servers',
    opener: 'service',
    service: 'imageServers',
    reason: 'Starts servers of images in the share of the workspace.',
  },
  'mcp.call_log': {
    module: 'features/mcp-servers/calls/call-log',
    opener: 'service',
    service: 'callQueue',
    reason: 'Appends to the log of calls of the workspace.',
  },
} as const satisfies Readonly<Record<string, Privilege>>
