/** The platform's MCP server: operations of the API as tools, and pages of the documentation as resources. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { recordFailure, runAudited } from '../../access/audit/audited-run.ts'
import type { PlatformClient, PlatformClients } from '../../access/authentication/platform-clients.ts'
import { PLATFORM_MCP_PATH, PLATFORM_SCOPES } from '../../access/authentication/platform-resource.ts'
import { nestedScope } from '../../access/derived-scopes.ts'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import { Permission } from '../../access/permission.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Platform } from '../../app/platform.ts'
import { runWithJson } from '../../core/bytes.ts'
import { CHAIN_DEPTH_HEADER, readChainDepth } from '../../core/execution.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { type Principal, roleFor } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { maskSecrets } from '../../core/redact.ts'
import { sentences } from '../../core/text/sentences.ts'
import { withoutNulls } from '../../features/mcp-servers/calls/check-values.ts'
import { problemMembers, problemText } from '../../features/mcp-servers/calls/problem-text.ts'
import { delimitUntrusted } from '../../features/mcp-servers/calls/untrusted-text.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import { Challenges, challengeOf, missingScope } from '../challenge.ts'
import { bearerOf, type Message, mountEndpoint, refuseForeignOrigin } from '../endpoint.ts'
import type { McpResources, McpServer, ToolResult } from '../protocol/mcp-server.ts'
import { loadPlatformResources } from './platform-resources.ts'
import {
  inputOf,
  inWordsOf,
  operationOf,
  type PlatformTool,
  returnsData,
  toolsFor,
  withoutSecrets,
} from './platform-tools.ts'

const INSTRUCTIONS = `Tenon is a backend for many tenants: flows, functions, collections, events and MCP servers.
1. me_get tells your role, tenant and workspace; workspace_list lists workspaces. Tools take the id as workspace_id.
2. Before you write a flow, read the resources tenon://docs/flows and tenon://docs/flow-language, and an example that is close
   (tenon://examples/…). tenon://docs/flow-schema has every field. Before a function, a schema or an MCP server: tenon://docs/functions,
   tenon://docs/schemas, tenon://docs/mcp.
3. flow_validate reports all errors with line and column; flow_simulate runs the flow against mocks, without effects.
4. flow_create stores a draft, flow_update replaces it, flow_version_create publishes it as the next version.
5. execution_create with wait (seconds, at most ${ACCESS_LIMITS.preferWaitSecondsMax}) starts it; execution_get has status, steps and output; approval_list has open decisions.
6. Tools that change something need the scope platform:write, and those that show people, keys and clients platform:people; clients ask the
   user for it when you first call one.
7. A result has at most ${MCP_LIMITS.resultBytesDefault} bytes: ask for small pages.`

/** Challenges its clients as a hosted server does by default. */
const SERVER = { id: PLATFORM_MCP_PATH, challenge: 'auto' } as const

export function mountPlatformServer(
  app: FastifyInstance,
  platform: Platform,
  { platformClients }: AuthServices,
): void {
  const handler = new PlatformServerHandler(platform, platformClients)
  mountEndpoint(app, platform.config, {
    path: PLATFORM_MCP_PATH,
    authenticate: (request, reply) => handler.authenticate(request, reply),
    serverFor: (request, message) => handler.serverFor(request, message),
  })
}

interface ToolCall {
  readonly operation: AnyOperation
  readonly args: Readonly<Record<string, unknown>>
  readonly principal: Principal
  readonly requestId: string
  readonly address: string
  readonly rateLimits: NonNullable<FastifyRequest['rateLimits']>
  /** How many calls of the platform are around this one. */
  readonly chainDepth: number | undefined
}

class PlatformServerHandler {
  readonly #platform: Platform
  readonly #clients: PlatformClients
  readonly #challenges = new Challenges()
  readonly #authenticated = new WeakMap<FastifyRequest, PlatformClient>()
  readonly #resources: McpResources = loadPlatformResources()

  constructor(platform: Platform, clients: PlatformClients) {
    this.#platform = platform
    this.#clients = clients
  }

  /** @throws Problem 403 for a page of another origin, 401 with the challenge of RFC 9728, 429 */
  async authenticate(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { config, limiter } = this.#platform
    refuseForeignOrigin(config, request.headers.origin)
    const client = await this.#identify(request)
    const { principal } = client
    request.principal = principal
    this.#authenticated.set(request, client)
    // The role of the tool is not known yet; an admin's request waits longer for Valkey.
    const role = principal.roles[0] ?? 'anon'
    const { headers, refused, states } = await limiter.limitPrincipal(principal, role, request.ip)
    request.rateLimits = states
    reply.headers(headers)
    if (refused !== undefined) throw refused
  }

  async #identify(request: FastifyRequest): Promise<PlatformClient> {
    try {
      const token = bearerOf(request)
      if (token === undefined) throw new Problem('credentials_missing')
      return await this.#clients.authenticate(token)
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.status !== 401) throw cause
      const error = cause.code === 'credentials_missing' ? undefined : 'invalid_token'
      const challenge = challengeOf(this.#clients.metadataUrl, [PLATFORM_SCOPES.read], { error })
      throw new Problem(cause.code, {
        ...(cause.detail !== undefined && { detail: cause.detail }),
        headers: { 'www-authenticate': challenge, 'cache-control': 'no-store' },
        hint: 'Sign in. MCP clients find the issuer by themselves. A token of `npx tenon token` works, too.',
        cause,
      })
    }
  }

  async serverFor(request: FastifyRequest, message: Message): Promise<McpServer> {
    const client = this.#authenticated.get(request)
    if (client === undefined) throw new TypeError('The request is not authenticated')
    const { principal } = client
    const tools = toolsFor(principal)
    const usable = tools.filter(({ operation: { roles } }) => roleFor(principal, roles) !== undefined)
    const called = message.method === 'tools/call' ? message.params?.name : undefined
    const wanted = usable.find(({ tool }) => tool.name === called)
    const refused = wanted && this.#checkScope(request, wanted, client)
    return {
      name: 'tenon',
      version: '1',
      instructions: INSTRUCTIONS,
      // Writing tools are listed without their scope, or no client would ask for it.
      tools: () => usable.map(({ tool }) => tool),
      resources: this.#resources,
      call: async (name, args) => {
        if (refused !== undefined) return refused
        const found = tools.find(({ tool }) => tool.name === name)
        return found === undefined
          ? this.#refuseTool(name, request, principal)
          : this.#call(found, args, request, principal)
      },
    }
  }

  /**
   * @returns a tool error for a client that cannot use challenges
   * @throws Problem `insufficient_scope`, whose challenge leads the client to the consent page
   */
  #checkScope(
    request: FastifyRequest,
    { scope, tool }: PlatformTool,
    client: PlatformClient,
  ): ToolResult | undefined {
    const { read, write } = PLATFORM_SCOPES
    const { scopes, principal } = client
    if (scopes.has(scope) || (scope === read && scopes.has(write))) return undefined
    const detail = `The tool ${tool.name} needs the scope ${scope}.`
    const { clientId = '', subject } = principal
    const challenged = { ...client, server: SERVER, isPerson: true, clientId, subject }
    if (!this.#challenges.admits(request, challenged, scope)) return missingScope(detail, [scope], scopes)
    // A client that asks for these alone keeps what it has.
    const needed = Object.values(PLATFORM_SCOPES).filter(
      (one) => one === read || one === scope || scopes.has(one),
    )
    const challenge = challengeOf(this.#clients.metadataUrl, needed, {
      error: 'insufficient_scope',
      error_description: 'The token does not allow this tool.',
    })
    throw new Problem('insufficient_scope', {
      detail,
      headers: { 'www-authenticate': challenge },
    })
  }

  /** A tool that the role may not use is audited, and answered as one that does not exist. */
  #refuseTool(name: string, { id: requestId }: FastifyRequest, principal: Principal): ToolResult {
    const operation = operationOf(name)
    if (operation !== undefined)
      this.#recordFailure({ operation, principal, requestId }, new Problem('forbidden'))
    return failure(notFound('tool'))
  }

  async #call(
    tool: PlatformTool,
    args: Readonly<Record<string, unknown>>,
    { id: requestId, ip: address, rateLimits = [], headers }: FastifyRequest,
    principal: Principal,
  ): Promise<ToolResult> {
    const { operation, requestIdField, chainDepthField } = tool
    const depthGiven = headers[CHAIN_DEPTH_HEADER]
    const chainDepth = readChainDepth(headers)
    try {
      const input = inputOf(tool, args)
      const completed = {
        ...(withoutNulls(operation.input as unknown as Record<string, unknown>, input) as object),
        ...(requestIdField !== undefined && { [requestIdField]: requestId }),
        ...(chainDepthField !== undefined && depthGiven !== undefined && { [chainDepthField]: depthGiven }),
      }
      const toolCall = { operation, args: completed, principal, requestId, address, rateLimits, chainDepth }
      return success(operation, await this.#run(toolCall))
    } catch (error) {
      const problem =
        error instanceof Problem
          ? inWordsOf(tool, error)
          : new Problem('internal', { detail: `The request id is ${requestId}.`, cause: error })
      if (problem.status >= 500 && !problem.row.final)
        this.#platform.log.error({ err: error, operation: operation.name }, 'tool call failed')
      return failure(problem)
    }
  }

  async #run(toolCall: ToolCall): Promise<unknown> {
    const { operation, args, requestId } = toolCall
    if (operation.reads)
      return this.#auditRefusal(toolCall, async () => {
        const scope = await this.#open(toolCall)
        if (!('actor' in scope)) return runWithJson(operation, scope, args)
        return runAudited(operation, scope, args, { kind: 'token', requestId })
      })
    const scope = await this.#auditRefusal(toolCall, () => this.#open(toolCall))
    if (!('actor' in scope))
      throw new TypeError(`${operation.name}: an operation about its caller must only read`)
    return runAudited(operation, scope, args, { kind: 'token', requestId })
  }

  /** Checks the arguments before the scope is opened: without its id, a workspace would be one that does not exist. */
  async #open({ operation, args, principal, address, rateLimits, chainDepth }: ToolCall) {
    const { access, limiter } = this.#platform
    const permission = Permission.require(operation, principal)
    permission.confirm(operation.parse(args))
    if (operation.rateClass !== undefined) {
      const { refused } = await limiter.limitPrincipal(
        principal,
        permission.role,
        address,
        operation.rateClass,
      )
      if (refused !== undefined) throw refused
    }
    const workspace = typeof args['ws'] === 'string' ? args['ws'] : undefined
    return nestedScope(await access.open(permission, workspace, rateLimits), chainDepth)
  }

  /** Audits what an HTTP request would leave in the log: refusals, and failures of what changes something. Its own status is 200. */
  async #auditRefusal<T>(call: ToolCall, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const isRefusal = error instanceof Problem && (error.status === 403 || error.status === 429)
      if (isRefusal || !call.operation.reads) this.#recordFailure(call, error)
      throw error
    }
  }

  #recordFailure(
    { operation, principal, requestId }: Pick<ToolCall, 'operation' | 'principal' | 'requestId'>,
    error: unknown,
  ): void {
    const { tenantId, workspaceId, subject, roles } = principal
    const call = {
      owner: { tenantId, workspaceId },
      requestId,
      actor: { subject, role: roles[0] ?? null, kind: 'token' as const },
      operation: operation.name,
      target: operation.http.path,
      before: null,
    }
    recordFailure(this.#platform.audit, call, error)
  }
}

/** @throws Problem `output_too_large` if the operation only reads; of another one, the effect has happened */
function success(operation: AnyOperation, output: unknown): ToolResult {
  const { value: masked } = maskSecrets(withoutSecrets(operation, output))
  const text = typeof masked === 'string' ? masked : (JSON.stringify(masked) ?? 'null')
  const bytes = Buffer.byteLength(text)
  if (bytes <= MCP_LIMITS.resultBytesDefault)
    return {
      content: [{ type: 'text', text: returnsData(operation) ? delimitUntrusted(text) : text }],
      isError: false,
    }
  const detail = `The result has ${bytes} bytes; a tool answers with at most ${MCP_LIMITS.resultBytesDefault}.`
  if (operation.reads) throw new Problem('output_too_large', { detail, hint: nextStep(operation) })
  const { id } = Object(output) as { id?: unknown }
  const done = sentences(
    `Done${typeof id === 'string' ? `, id ${id}` : ''}.`,
    detail,
    'Do not repeat the call.',
  )
  return { content: [{ type: 'text', text: done }], isError: false }
}

/** How to ask for less. */
function nextStep({ input: { properties }, http: { method, path } }: AnyOperation): string {
  const has = (name: string) => Object.hasOwn(properties, name)
  const steps = [
    ...['page_size', 'limit'].filter(has).map((size) => `Ask for a smaller ${size}.`),
    ...(has('select') ? ['Name the fields that you need in select.'] : []),
  ]
  return steps.join(' ') || `Read it over the REST API: ${method} ${path}.`
}

/** Clients of SDK 1 check structured content against the output schema, also that of an error; the tools have none. */
const failure = (problem: Problem): ToolResult => ({
  content: [{ type: 'text', text: problemText(problem) }],
  structuredContent: problemMembers(problem),
  isError: true,
})
