/** The eras up to 2025-11-25, by SDK 1.x: stateless, one server and one transport a request (CVE-2026-25536). */

import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  CallToolRequestSchema,
  ErrorCode,
  ListToolsRequestSchema,
  type ListToolsResult,
  McpError,
} from '@modelcontextprotocol/sdk/types.js'
import { ASKS_NOTHING, type Serve, type WireServer } from './wire-server.ts'

export const serveLegacy: Serve = async ({ request, response, body }, server) => {
  const mcp = serverOf(server)
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
  response.once('close', () => void mcp.close())
  // The SDK's own class types its optional members in a way that exactOptionalPropertyTypes refuses.
  await mcp.connect(transport as Parameters<typeof mcp.connect>[0])
  await transport.handleRequest(request, response, body)
}

/** The low-level server: the high-level one takes Zod schemas alone, ours are JSON Schema. */
function serverOf({ name, version, instructions, tools, call }: WireServer): Server {
  const server = new Server(
    { name, version },
    { capabilities: { tools: {} }, jsonSchemaValidator: ASKS_NOTHING, ...(instructions && { instructions }) },
  )
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: tools as unknown as ListToolsResult['tools'],
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const result = await call(params.name, params.arguments ?? {})
    if (result === undefined) throw new McpError(ErrorCode.InvalidParams, 'There is no such tool.')
    return { ...result }
  })
  return server
}
