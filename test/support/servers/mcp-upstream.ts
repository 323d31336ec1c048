/** Real MCP servers on loopback, made of the official SDKs, whose tools a test may change at any time. */

import { randomUUID } from 'node:crypto'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Server as LegacyServer } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { createMcpHandler, Server as ModernServer } from '@modelcontextprotocol/server'

export interface UpstreamTool {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly inputSchema?: object
  readonly outputSchema?: object
  readonly annotations?: object
  readonly icons?: readonly object[]
  /** @returns the result of the call */
  readonly call: (args: Record<string, unknown>, seen: { readonly session?: string | undefined }) => object
}

/**
 * `modern`: SDK 2, 2026-07-28. `stateless`: SDK 1, JSON. `sessions`: SDK 1, sessions, and streams of events.
 */
export type UpstreamKind = 'modern' | 'stateless' | 'sessions'

interface Received {
  readonly method: unknown
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export class McpUpstream {
  tools: readonly UpstreamTool[]
  /** Tools in one page of a list. */
  pageSize = 100
  /** Headers of all responses. */
  headers: Readonly<Record<string, string>> = {}
  readonly requests: Received[] = []
  readonly #kind: UpstreamKind
  readonly #server: Server
  readonly #sessions = new Map<string, StreamableHTTPServerTransport>()

  private constructor(kind: UpstreamKind, tools: readonly UpstreamTool[], server: Server) {
    this.#kind = kind
    this.tools = tools
    this.#server = server
  }

  static async open(kind: UpstreamKind, tools: readonly UpstreamTool[]): Promise<McpUpstream> {
    const server = createServer()
    const upstream = new McpUpstream(kind, tools, server)
    server.on('request', (request, response) => void upstream.#answer(request, response))
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    return upstream
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get url(): string {
    return `http://${this.host}/mcp`
  }

  requestsFor(method: string): readonly Received[] {
    return this.requests.filter((one) => one.method === method)
  }

  /** As a server that was started anew. */
  forgetSessions(): void {
    this.#sessions.clear()
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = text === '' ? undefined : JSON.parse(text)
    this.requests.push({ method: body?.method, headers: request.headers, body: text })
    for (const [name, value] of Object.entries(this.headers)) response.setHeader(name, value)
    if (this.#kind === 'modern') {
      const node = toNodeHandler(createMcpHandler(() => this.#modern(), { legacy: 'reject' }))
      return node(request as Parameters<typeof node>[0], response as Parameters<typeof node>[1], body)
    }
    const transport = await this.#transport(request, body)
    if (transport === undefined) {
      const error = { code: -32_000, message: 'No valid session ID provided' }
      response.writeHead(400, { 'content-type': 'application/json' })
      return void response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
    }
    await transport.handleRequest(request, response, body)
  }

  async #transport(
    request: IncomingMessage,
    body: { method?: string },
  ): Promise<StreamableHTTPServerTransport | undefined> {
    const session = request.headers['mcp-session-id']
    if (typeof session === 'string') return this.#sessions.get(session)
    if (this.#kind === 'sessions' && body.method !== 'initialize') return undefined
    const transport = new StreamableHTTPServerTransport(
      this.#kind === 'stateless'
        ? { enableJsonResponse: true }
        : {
            sessionIdGenerator: () => randomUUID(),
            onsessioninitialized: (id) => void this.#sessions.set(id, transport),
          },
    )
    const server = this.#legacy()
    await server.connect(transport as Parameters<typeof server.connect>[0])
    return transport
  }

  #legacy(): LegacyServer {
    const options = { capabilities: { tools: {} } }
    const server = new LegacyServer({ name: 'upstream', version: '1' }, options)
    server.setRequestHandler(
      ListToolsRequestSchema,
      async ({ params }) => this.#page(params?.cursor) as never,
    )
    server.setRequestHandler(
      CallToolRequestSchema,
      async ({ params }, { sessionId }) =>
        this.#call(params.name, params.arguments ?? {}, sessionId) as never,
    )
    return server
  }

  #modern(): ModernServer {
    const options = { capabilities: { tools: {} } }
    const server = new ModernServer({ name: 'upstream', version: '1' }, options)
    server.setRequestHandler(
      'tools/list',
      async ({ params }) => ({ ...this.#page(params?.cursor), ttlMs: 0, cacheScope: 'private' }) as never,
    )
    server.setRequestHandler(
      'tools/call',
      async ({ params }) => this.#call(params.name, params.arguments ?? {}, undefined) as never,
    )
    return server
  }

  #page(cursor: string | undefined) {
    const from = Number(cursor ?? 0)
    const to = from + this.pageSize
    const tools = this.tools
      .slice(from, to)
      .map(({ call: _call, ...tool }) => ({ inputSchema: ANY, ...tool }))
    return { tools, ...(to < this.tools.length && { nextCursor: String(to) }) }
  }

  #call(name: string, args: Record<string, unknown>, session: string | undefined): object {
    const tool = this.tools.find((one) => one.name === name)
    if (tool === undefined) throw new Error(`no tool ${name}`)
    return tool.call(args, { session })
  }
}

const ANY = { type: 'object' }

/** The result of a call: one text. */
export const textResult = (text: string) => ({ content: [{ type: 'text', text }] })
