/** The official MCP server: each read operation is a tool with the operation's own schema. */

import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { type AnyOperation, replyOf } from '../core/operation.ts'
import { inDomain, type Principal } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { Platform } from '../platform/platform.ts'
import { OPERATIONS } from '../resources/index.ts'

/** A server for one request of one principal; it keeps nothing. */
export function platformServer(platform: Platform, principal: Principal): Server {
  const tools = OPERATIONS.filter(
    ({ reads, http, domain }) => reads && http.reply === undefined && inDomain(principal, domain),
  )
  const server = new Server({ name: 'tenon', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: tools.map(describe) }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const operation = tools.find((tool) => toolName(tool) === params.name)
    if (operation === undefined) return failure(`There is no tool ${params.name}.`)
    try {
      return success(await call(platform, principal, operation, params.arguments ?? {}))
    } catch (error) {
      if (error instanceof Problem && error.status < 500) return failure(`${error.code}: ${error.message}`)
      platform.log.error({ err: error, operation: operation.name }, 'tool')
      return failure('internal: Something is wrong on our side.')
    }
  })
  return server
}

/** Tool names keep to the letters that every client takes: `tenant.list` → `tenant_list`. */
const toolName = (operation: AnyOperation) => operation.name.replaceAll('.', '_')

function describe(operation: AnyOperation) {
  return {
    name: toolName(operation),
    title: operation.summary,
    description: `${operation.summary} (${operation.http.method} ${operation.http.path}).`,
    inputSchema: { ...operation.input, type: 'object' as const },
    annotations: { readOnlyHint: true, openWorldHint: false },
  }
}

async function call(
  platform: Platform,
  principal: Principal,
  operation: AnyOperation,
  input: Record<string, unknown>,
): Promise<unknown> {
  const workspace = typeof input['ws'] === 'string' ? input['ws'] : undefined
  const scope = await platform.access.open(operation, principal, workspace)
  return replyOf(operation, await operation.run(scope, operation.parse(input)))
}

function success(output: unknown): CallToolResult {
  return {
    content: [{ type: 'text', text: JSON.stringify(output) }],
    structuredContent: output as CallToolResult['structuredContent'],
  }
}

function failure(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true }
}
