/** The official MCP server: each read operation is a tool with the operation's own schema. */

import type { AuditEvent } from '../access/audit/entry.ts'
import type { BucketState } from '../access/rate-limit/memory-buckets.ts'
import type { Platform } from '../app/platform.ts'
import { runWithJson } from '../core/bytes.ts'
import type { AnyOperation } from '../core/operation.ts'
import { inDomain, type Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { OPERATIONS } from '../features/index.ts'
import type { WireResult, WireServer, WireTool } from './wire/wire-server.ts'

/** A server for one request of one principal; it keeps nothing. */
export function platformServer(
  platform: Platform,
  principal: Principal,
  requestId: string,
  standings: readonly BucketState[] = [],
): WireServer {
  const operations = OPERATIONS.filter(
    ({ reads, http, domain }) => reads && http.reply !== 'feed' && inDomain(principal, domain),
  )
  return {
    name: 'tenon',
    version: '1',
    tools: operations.map(describe),
    call: async (name, args) => {
      const operation = operations.find((tool) => toolName(tool) === name)
      if (operation === undefined) return failure('There is no such tool.')
      try {
        const output = await call(platform, principal, standings, operation, args)
        await recordRevealed(platform, { operation, principal, requestId, args })
        return success(output)
      } catch (error) {
        if (error instanceof Problem && error.status === 403)
          platform.audit.enqueueThrottled(refusal(operation, principal, requestId, error))
        if (error instanceof Problem && error.status < 500) return failure(`${error.code}: ${error.message}`)
        platform.log.error({ err: error, operation: operation.name }, 'tool')
        return failure('internal: Something is wrong on our side.')
      }
    },
  }
}

/** Tool names keep to the letters that every client takes: `tenant.list` → `tenant_list`. */
const toolName = (operation: AnyOperation) => operation.name.replaceAll('.', '_')

function describe(operation: AnyOperation): WireTool {
  return {
    name: toolName(operation),
    title: operation.summary,
    description: `${operation.summary} (${operation.http.method} ${operation.http.path}).`,
    inputSchema: { ...operation.input, type: 'object' },
    annotations: { readOnlyHint: true, openWorldHint: false },
  }
}

async function call(
  platform: Platform,
  principal: Principal,
  standings: readonly BucketState[],
  operation: AnyOperation,
  input: Record<string, unknown>,
): Promise<unknown> {
  const workspace = typeof input['ws'] === 'string' ? input['ws'] : undefined
  const scope = await platform.access.open(operation, principal, workspace, standings)
  return runWithJson(operation, scope, input)
}

/** A tool call that shows data of tenants is in the log before its result leaves; an operator's, in each tenant's chain. */
async function recordRevealed(
  { audit }: Platform,
  {
    operation,
    principal,
    requestId,
    args,
  }: { operation: AnyOperation; principal: Principal; requestId: string; args: Record<string, unknown> },
): Promise<void> {
  if (operation.reveals === undefined) return
  const done = { outcome: 'done', status: 200, code: null } as const
  const event = eventOf(operation, principal, requestId, done)
  if (principal.tenantId !== undefined) return audit.append(event)
  const places = operation.reveals(operation.parse(args)).map((tenantId) => audit.ownerOf({ tenantId }))
  await Promise.all(places.map(async (place) => audit.append({ ...event, owner: await place })))
}

/** A refused tool is no refused request: the reply to it says 200. */
const refusal = (
  operation: AnyOperation,
  principal: Principal,
  requestId: string,
  problem: Problem,
): AuditEvent =>
  eventOf(operation, principal, requestId, {
    outcome: 'denied',
    status: problem.status,
    code: problem.code,
  })

function eventOf(
  operation: AnyOperation,
  { tenantId, workspaceId, subject, roles }: Principal,
  requestId: string,
  { outcome, status, code }: Pick<AuditEvent, 'outcome' | 'status' | 'code'>,
): AuditEvent {
  return {
    owner: { tenantId, workspaceId },
    requestId,
    actor: { subject, role: roles[0] ?? null, kind: 'token' },
    operation: operation.name,
    target: operation.http.path,
    outcome,
    status,
    code,
    before: null,
    after: null,
  }
}

function success(output: unknown): WireResult {
  const object = typeof output === 'object' && output !== null && !Array.isArray(output)
  return {
    content: [{ type: 'text', text: typeof output === 'string' ? output : JSON.stringify(output) }],
    ...(object && { structuredContent: output as Record<string, unknown> }),
    isError: false,
  }
}

function failure(text: string): WireResult {
  return { content: [{ type: 'text', text }], isError: true }
}
