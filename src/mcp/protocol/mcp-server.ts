/** The MCP server for one request, as both SDKs serve it: tools, resources, prompts, tasks. */

import type { CallClient, InputRequest } from '../../features/mcp-servers/calls/call-client.ts'
import type { Content } from '../../features/mcp-servers/calls/content.ts'
import type { ClientAnswer } from '../hosted/client-answers.ts'

export interface McpTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
}

export interface ToolResult {
  readonly content: Content[]
  readonly structuredContent?: Record<string, unknown>
  readonly isError: boolean
  readonly _meta?: Record<string, unknown>
}

export interface McpResource {
  readonly uri: string
  readonly name: string
  readonly title: string
  readonly description: string
  readonly mimeType: string
}

export type ResourceContents = { readonly uri: string; readonly mimeType: string } & (
  | { readonly text: string }
  | { readonly blob: string }
)

/** Files for the model, by URI. */
interface McpResourceTemplate extends Omit<McpResource, 'uri'> {
  readonly uriTemplate: string
}

export interface McpResources {
  readonly list: () => readonly McpResource[]
  readonly templates?: () => readonly McpResourceTemplate[]
  /** Undefined if there is no such resource. */
  readonly read: (uri: string) => Promise<readonly ResourceContents[] | undefined>
}

interface McpPrompt {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly arguments: { readonly name: string; readonly description?: string; readonly required: boolean }[]
}

interface PromptMessage {
  readonly role: 'user' | 'assistant'
  readonly content: Content
}

export interface McpPrompts {
  readonly list: () => readonly McpPrompt[]
  /** Undefined if there is no such prompt. @throws Problem for wrong arguments */
  readonly get: (
    name: string,
    args: Readonly<Record<string, string>>,
    client: CallClient,
  ) => Promise<
    { readonly description?: string; readonly messages: PromptMessage[] } | InputRequired | undefined
  >
}

/** Completions of an argument of a prompt for the beginning of its value. */
export type McpCompletions = (prompt: string, argument: string, begin: string) => readonly string[]

/** The MCP server for one request. */
export interface McpServer {
  readonly name: string
  readonly version: string
  readonly instructions?: string
  /** Called for `tools/list` alone: a call needs none of them described. */
  readonly tools: () => readonly McpTool[]
  readonly resources?: McpResources | undefined
  readonly prompts?: McpPrompts | undefined
  readonly complete?: McpCompletions | undefined
  /**
   * A failure is a result, without detail.
   * @returns undefined if there is no such tool
   * @throws RpcRefusal
   */
  readonly call: (
    tool: string,
    args: Record<string, unknown>,
    client: CallClient,
  ) => Promise<ToolResult | InputRequired | Task | undefined>
  readonly tasks?: McpTasks | undefined
  readonly changes?: McpChanges | undefined
  /** Clients up to MCP 2025-11-25 get sessions. */
  readonly hasSessions?: boolean
  readonly session?: McpSession | undefined
  /** Takes the answer of a client to a request of the server. */
  readonly takeAnswer?: (requestId: unknown, answer: ClientAnswer) => void
}

/** The session of a client up to MCP 2025-11-25, which sends answers to requests as messages of their own. */
export interface McpSession {
  /** Capabilities that the client has declared at the beginning. */
  readonly capabilities: Readonly<Record<string, object>>
  /** The called tool may ask its client, so its response has to be a stream. */
  readonly mayAsk: boolean
  /** Called once before a call asks its client. @throws Problem `quota_exceeded` if too many calls and streams wait */
  readonly begin: () => Promise<void>
  /** The client wants log messages of the steps of the called tool, in a stream, too. */
  readonly logsSteps: boolean
  /** @returns undefined if the client does not answer in time */
  readonly answerTo: (requestId: string, signal: AbortSignal) => Promise<ClientAnswer | undefined>
  readonly setLogLevel: (level: string) => Promise<void>
  /** @returns false if the session has too many subscriptions */
  readonly subscribe: (uri: string) => Promise<boolean>
  readonly unsubscribe: (uri: string) => Promise<void>
}

/** A result that asks the client first (MCP 2026-07-28, "Multi Round-Trip Requests"). */
export interface InputRequired {
  readonly resultType: 'input_required'
  readonly inputRequests: Readonly<Record<string, InputRequest>>
  /** Opaque to the client, which returns it with its answers. */
  readonly requestState?: string
}

/** A call that goes on (extension `io.modelcontextprotocol/tasks`). Times are RFC 3339. */
export interface Task {
  readonly resultType: 'task'
  readonly taskId: string
  readonly status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  readonly createdAt: string
  readonly lastUpdatedAt: string
  /** Milliseconds for which it is kept; null: the retention of the workspace decides. */
  readonly ttlMs: number | null
  readonly pollIntervalMs: number
}

/** A task with its outcome, or with what it asks. */
export interface TaskState extends Omit<Task, 'resultType'> {
  readonly result?: ToolResult
  readonly inputRequests?: Readonly<Record<string, InputRequest>>
}

/** Tasks of the client. A task of another one does not exist for it. */
export interface McpTasks {
  readonly get: (taskId: string) => Promise<TaskState | undefined>
  /** @returns false if there is no such task */
  readonly update: (taskId: string, inputResponses: unknown) => Promise<boolean>
  /** @returns false if there is no such task */
  readonly cancel: (taskId: string) => Promise<boolean>
}

export type McpChange = 'tools' | 'prompts' | 'resources' | { readonly uri: string }

/** What a client can be told of while it listens. */
export interface McpChanges {
  /** Reports changes to lists, and to the resources of these URIs. @returns stops */
  readonly listen: (uris: readonly string[], onChange: (change: McpChange) => void) => () => void
}
