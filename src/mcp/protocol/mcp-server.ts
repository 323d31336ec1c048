/** The interface of an MCP server that both SDKs serve: tools, resources, prompts, tasks. */

import type { Annotations } from '../../core/tool-annotations.ts'
import type { CallClient, InputRequests } from '../../features/mcp-servers/calls/call-client.ts'
import type { Content } from '../../features/mcp-servers/calls/content.ts'

export interface McpTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Partial<Annotations>
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

interface McpResourceTemplate extends Omit<McpResource, 'uri'> {
  readonly uriTemplate: string
}

/** Texts and files for clients, by URI. */
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

/** An MCP server for one request: it offers what the client of the request may use. */
export interface McpServer {
  readonly name: string
  readonly version: string
  readonly instructions?: string
  /** Called for `tools/list` alone, since a call needs no descriptions of tools. */
  readonly tools: () => readonly McpTool[]
  readonly resources?: McpResources | undefined
  readonly prompts?: McpPrompts | undefined
  readonly complete?: McpCompletions | undefined
  /**
   * A failure of the tool is a result with `isError`.
   * @returns undefined if there is no such tool
   * @throws RpcRefusal for a call that is answered with a JSON-RPC error
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
  /** Takes the response of a client to a request of the server. */
  readonly takeResponse?: (requestId: unknown, response: ClientResponse) => void
}

/** A JSON-RPC response of a client to a request of the server, unverified. */
export interface ClientResponse {
  readonly result?: unknown
  readonly error?: unknown
}

/** The session of a client up to MCP 2025-11-25, which sends responses to requests as messages of their own. */
export interface McpSession {
  /** Those that the client has declared at the beginning. */
  readonly capabilities: Readonly<Record<string, object>>
  /** The called tool may send requests to its client, so the result of the call has to be a stream. */
  readonly mayRequestInput: boolean
  /** Called once before a call sends requests to its client. @throws Problem `quota_exceeded` if too many calls and streams wait */
  readonly begin: () => Promise<void>
  /** The client wants log messages of the steps of the called tool, in a stream, too. */
  readonly logsSteps: boolean
  /** @returns undefined if the client does not respond in time */
  readonly waitForResponse: (requestId: string, signal: AbortSignal) => Promise<ClientResponse | undefined>
  /**
   * Makes a call with a signal that aborts when the client cancels its request (`notifications/cancelled`) or has gone.
   * @throws CallCancelled in place of the result if the client has cancelled its request
   */
  readonly cancellable: <T>(
    disconnected: AbortSignal,
    call: (signal: AbortSignal) => Promise<T>,
  ) => Promise<T>
  readonly setLogLevel: (level: string) => Promise<void>
  /** @returns false if the session has too many subscriptions */
  readonly subscribe: (uri: string) => Promise<boolean>
  readonly unsubscribe: (uri: string) => Promise<void>
}

/** A cancelled request gets no response (specification, "Cancellation"). */
export class CallCancelled extends Error {}

/** A result that requests input from the client first (MCP 2026-07-28, "Multi Round-Trip Requests"). */
export interface InputRequired {
  readonly resultType: 'input_required'
  readonly inputRequests: InputRequests
  /** Opaque to the client, which returns it with its responses. */
  readonly requestState?: string
}

/** A call that continues after its response (extension `io.modelcontextprotocol/tasks`). Times are RFC 3339. */
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

/** A task with its result, or with its requests to the client. */
export interface TaskState extends Omit<Task, 'resultType'> {
  readonly result?: ToolResult
  readonly inputRequests?: InputRequests
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

/** Changes that a client is notified of (`subscriptions/listen`). */
export interface McpChanges {
  /** Reports changes of lists, and of the resources of these URIs. @returns a function that ends it */
  readonly listen: (uris: readonly string[], onChange: (change: McpChange) => void) => () => void
}
