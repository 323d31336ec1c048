/** The official MCP server: each read operation of the API is a tool with the schema of the operation. */

import type { FastifyInstance } from 'fastify'
import type { AuditEvent } from '../access/audit/entry.ts'
import type { AuthServices } from '../access/authentication/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { runWithJson } from '../core/bytes.ts'
import { isObject } from '../core/json.ts'
import type { AnyOperation } from '../core/operation.ts'
import { inDomain, type Principal, roleFor } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { OPERATIONS } from '../features/index.ts'
import { bearerOf, mountEndpoint, refuseForeignOrigin } from './endpoint.ts'
import type { McpTool, ToolResult } from './transport.ts'

/** Authenticates by an access token. Each operation checks the rights of the caller itself. */
export function mountPlatformServer(app: FastifyInstance, platform: Platform, { auth }: AuthServices): void {
  mountEndpoint(app, platform.config, {
    path: '/v1/mcp/platform/mcp',
    authenticate: async (request, reply) => {
      refuseForeignOrigin(platform.config, request.headers.origin)
      const token = bearerOf(request)
      if (token === undefined) throw new Problem('credentials_missing')
      const principal = await auth.authenticate({ kind: 'token', text: token })
      request.principal = principal
      // The role of the tool is not known yet; an admin's request waits longer for Valkey.
      const role = principal.roles[0] ?? 'anon'
      const { headers, refused, states } = await platform.limiter.limitPrincipal(principal, role, request.ip)
      request.rateLimits = states
      reply.headers(headers)
      if (refused !== undefined) throw refused
    },
    serverFor: async ({ principal, rateLimits = [], id }) => {
      if (principal === undefined) throw new TypeError('The request is not authenticated')
      const operations = OPERATIONS.filter(
        ({ reads, http, domain }) => reads && http.reply !== 'feed' && inDomain(principal, domain),
      )
      return {
        name: 'tenon',
        version: '1',
        // One that is called nevertheless is forbidden, and audited.
        tools: operations.filter(({ roles }) => roleFor(principal, roles) !== undefined).map(toolOf),
        call: async (name, args) => {
          const operation = operations.find((one) => toolName(one) === name)
          if (operation === undefined) return failure('There is no such tool.')
          return call(platform, { operation, principal, requestId: id, args }, rateLimits)
        },
      }
    },
  })
}

/** `tenant.list` → `tenant_list`: not every client accepts a dot. */
const toolName = (operation: AnyOperation) => operation.name.replaceAll('.', '_')

function toolOf(operation: AnyOperation): McpTool {
  return {
    name: toolName(operation),
    title: operation.summary,
    description: `${operation.summary} (${operation.http.method} ${operation.http.path}).`,
    inputSchema: { ...operation.input, type: 'object' },
    annotations: { readOnlyHint: true, openWorldHint: false },
  }
}

interface ToolCall {
  readonly operation: AnyOperation
  readonly principal: Principal
  readonly requestId: string
  readonly args: Record<string, unknown>
}

async function call(
  { access, audit, log }: Platform,
  toolCall: ToolCall,
  rateLimits: Parameters<Platform['access']['open']>[3],
): Promise<ToolResult> {
  const { operation, principal, args } = toolCall
  try {
    const workspace = typeof args['ws'] === 'string' ? args['ws'] : undefined
    const scope = await access.open(operation, principal, workspace, rateLimits)
    const output = await runWithJson(operation, scope, args)
    await auditRevealed(audit, toolCall)
    return success(output)
  } catch (error) {
    if (error instanceof Problem && error.status === 403)
      audit.enqueueThrottled(auditEvent(toolCall, { outcome: 'denied', status: 403, code: error.code }))
    if (error instanceof Problem && error.status < 500) return failure(`${error.code}: ${error.message}`)
    log.error({ err: error, operation: operation.name }, 'tool call failed')
    return failure('internal: Something is wrong on our side.')
  }
}

/** Writes the audit entry of revealed data before it is sent; for an operator, one in the chain of each tenant. */
async function auditRevealed(audit: Platform['audit'], toolCall: ToolCall): Promise<void> {
  const { operation, principal, args } = toolCall
  if (operation.reveals === undefined) return
  const event = auditEvent(toolCall, { outcome: 'done', status: 200, code: null })
  if (principal.tenantId !== undefined) return audit.append(event)
  const tenants = operation.reveals(operation.parse(args))
  await Promise.all(
    tenants.map(async (tenantId) => audit.append({ ...event, owner: await audit.ownerOf({ tenantId }) })),
  )
}

/** The audit event of a tool call. A denied call has an event of its own, since the status of the request is 200. */
function auditEvent(
  { operation, principal: { tenantId, workspaceId, subject, roles }, requestId }: ToolCall,
  outcome: Pick<AuditEvent, 'outcome' | 'status' | 'code'>,
): AuditEvent {
  return {
    owner: { tenantId, workspaceId },
    requestId,
    actor: { subject, role: roles[0] ?? null, kind: 'token' },
    operation: operation.name,
    target: operation.http.path,
    ...outcome,
    before: null,
    after: null,
  }
}

function success(output: unknown): ToolResult {
  return {
    content: [{ type: 'text', text: typeof output === 'string' ? output : JSON.stringify(output) }],
    ...(isObject(output) && { structuredContent: output }),
    isError: false,
  }
}

const failure = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true })
