/** The tools of the platform's MCP server: operations that read, and an explicit list of those that write. */

import { PLATFORM_SCOPES } from '../../access/authentication/platform-resource.ts'
import { CHAIN_DEPTH_HEADER } from '../../core/execution.ts'
import { isObject } from '../../core/json.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { inDomain, isPublicRole, type Principal, roleFor } from '../../core/policy.ts'
import { portableInput } from '../../core/portable-schema.ts'
import type { Problem } from '../../core/problem.ts'
import { REDACTED } from '../../core/redact.ts'
import { annotationsOfOperation, type OperationEffect } from '../../core/tool-annotations.ts'
import { OPERATIONS } from '../../features/index.ts'
import { bodyProblem } from '../../features/operation-helpers.ts'
import type { McpTool } from '../protocol/mcp-server.ts'

/**
 * The operations that write and are tools. These are not:
 * - keys, accounts, users, OAuth and MCP clients, secrets of flows and webhooks: their answers show secrets once, or they
 *   give access to others
 * - tenants, workspaces, quotas, settings: an agent does not change the limits that it works in
 * - deletions, except of documents: an agent cannot undo them, and it builds without them
 * - commands that repair an execution (`execution.patch`, `skip_step`, …), objects and imports: not asked for yet
 */
const WRITES: Readonly<Record<string, OperationEffect>> = {
  'flow.create': 'adds',
  'flow.update': 'changes',
  'flow_version.create': 'changes',
  'execution.create': 'runs',
  'execution.cancel': 'runs',
  'approval.decide': 'runs',
  // The same for accounts with the role `service`.
  'flow.start': 'runs',
  'inbox.decide': 'runs',
  'function.invoke': 'runs',
  'function.create': 'changes',
  'schema.create': 'adds',
  'schema.update': 'changes',
  'mcp_server.create': 'adds',
  'mcp_curation.replace': 'changes',
  'mcp_version.create': 'changes',
  'mcp_version.approve': 'changes',
  'mcp_server.call': 'runs',
  'collection.create': 'adds',
  'collection.update': 'changes',
  'collection.patch': 'changes',
  'collection.delete': 'changes',
  'batch.run': 'changes',
}

/** Nouns whose operations show who has access: people, what is stored about them, and credentials. */
const PEOPLE: ReadonlySet<string> = new Set(['account', 'user', 'api_key', 'oauth_client', 'mcp_client'])

/** The field that names a workspace has this name in all tools; in paths it is `ws`. */
const WORKSPACE = 'workspace_id'

type PlatformScope = (typeof PLATFORM_SCOPES)[keyof typeof PLATFORM_SCOPES]

export interface PlatformTool {
  readonly operation: AnyOperation
  readonly tool: McpTool
  /** The scope that a token needs for it. */
  readonly scope: PlatformScope
  /** The input field that takes the id of the request. */
  readonly requestIdField: string | undefined
  /** The input field that takes the header with the number of calls around this one. */
  readonly chainDepthField: string | undefined
}

/**
 * `codec.decode` reveals the payloads of executions, and `codec.encode` serves the Temporal UI. Sessions and consents of a person are no
 * business of an agent.
 */
const isReadTool = ({ name, reads, reveals, http }: AnyOperation): boolean =>
  reads && reveals === undefined && !NO_TOOLS.includes(name) && http.reply !== 'feed'

const NO_TOOLS = ['codec.encode', 'me.list_sessions', 'me.list_consents']

const PLATFORM_TOOLS: readonly PlatformTool[] = OPERATIONS.filter(
  (operation) => isReadTool(operation) || Object.hasOwn(WRITES, operation.name),
).map(toolOf)

/** The operation behind the name of a tool, without a check of roles. */
export const operationOf = (name: string): AnyOperation | undefined =>
  PLATFORM_TOOLS.find(({ tool }) => tool.name === name)?.operation

/** True if the results are documents and other data, which applications and their users write. */
export const returnsData = ({ domain }: AnyOperation): boolean => domain === 'data_access'

/**
 * The tools that a caller may name. Reading tools that its role may not use are among them: a call is forbidden, and
 * audited. No public role has writing tools: each caller with a workspace has the role `anon` besides its own.
 */
export const toolsFor = (principal: Principal): PlatformTool[] =>
  PLATFORM_TOOLS.filter(({ operation: { reads, domain, roles } }) => {
    if (reads) return inDomain(principal, domain)
    const role = roleFor(principal, roles)
    return role !== undefined && !isPublicRole(role)
  })

function toolOf(operation: AnyOperation): PlatformTool {
  const { name, summary, input, http } = operation
  const fieldOf = (name: string) =>
    Object.entries(http.headers ?? {}).find(([, header]) => header === name)?.[0]
  const [requestIdField, chainDepthField] = [fieldOf('x-request-id'), fieldOf(CHAIN_DEPTH_HEADER)]
  const { [requestIdField ?? '']: _id, [chainDepthField ?? '']: _depth, ...properties } = input.properties
  const scope = scopeFor(operation)
  const tool = {
    // Not every client accepts a dot.
    name: name.replaceAll('.', '_'),
    title: summary,
    description: `${summary}.${scope === PLATFORM_SCOPES.read ? '' : ` Needs the scope ${scope}.`}`,
    // No output schema: clients check the result of an error against it as well.
    inputSchema: portableInput(withWorkspace({ ...input, properties, type: 'object' })),
    annotations: annotationsOfOperation(operation.reads ? 'reads' : (WRITES[name] ?? 'runs'), http.method),
  }
  return { operation, tool, scope, requestIdField, chainDepthField }
}

function scopeFor({ name, reads }: AnyOperation): PlatformScope {
  if (!reads) return PLATFORM_SCOPES.write
  return PEOPLE.has(name.split('.')[0] ?? '') ? PLATFORM_SCOPES.people : PLATFORM_SCOPES.read
}

interface ObjectSchema {
  readonly properties: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
}

function named(name: string): string {
  return name === 'ws' ? WORKSPACE : name
}

/** The schema of a tool, in which a workspace has one name. */
function withWorkspace<T extends ObjectSchema>(schema: T): T {
  const properties = Object.entries(schema.properties).map(([name, one]) => [named(name), one])
  return {
    ...schema,
    properties: Object.fromEntries(properties),
    ...(schema.required && { required: schema.required.map(named) }),
  }
}

const namesByPath = ({ operation: { input } }: PlatformTool) => Object.hasOwn(input.properties, 'ws')

/** The arguments of a call as the operation has them. @throws Problem `validation_failed` for the name that only paths have */
export function inputOf(
  tool: PlatformTool,
  args: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (!namesByPath(tool)) return args
  if (args['ws'] !== undefined) {
    const detail = `A tool takes a workspace as ${WORKSPACE}, not as ws.`
    throw bodyProblem(`/${WORKSPACE}`, 'is missing; ws is not known', detail)
  }
  const { [WORKSPACE]: ws, ...others } = args
  return ws === undefined ? others : { ...others, ws }
}

/** A problem with the names of the tool's arguments. */
export function inWordsOf(tool: PlatformTool, problem: Problem): Problem {
  const { detail, errors } = problem
  if (!namesByPath(tool) || !errors.some(({ name }) => name === 'ws')) return problem
  return problem.changed({
    ...(detail !== undefined && { detail: detail.replaceAll(/\bws(?=:)/g, WORKSPACE) }),
    errors: errors.map((error) => ({ ...error, name: named(error.name) })),
  })
}

/** An output without secrets that are shown once: a model would keep the one of a new webhook in its conversation. */
export function withoutSecrets({ name }: AnyOperation, output: unknown): unknown {
  if (name !== 'flow_version.create' || !isObject(output) || !Array.isArray(output['webhooks'])) return output
  const webhooks = output['webhooks'].map((webhook: object) =>
    'secret' in webhook ? { ...webhook, secret: REDACTED } : webhook,
  )
  return { ...output, webhooks }
}
