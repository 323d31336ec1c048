/** Options, texts and completions that the servers of both generations of the protocol share. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { isObject } from '../../core/json.ts'
import { Problem } from '../../core/problem.ts'
import type { Progress } from '../../features/mcp-servers/calls/call-client.ts'
import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  RpcRefusal,
} from '../../features/mcp-servers/calls/client-requests.ts'
import { type Entry, type List, listPage } from './list-pages.ts'
import type { McpCompletions, McpServer } from './mcp-server.ts'

/** A POST whose body has been read. {@link serve} writes the whole response. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: unknown
}

/** The extension for calls that continue after their response. */
export const TASKS = 'io.modelcontextprotocol/tasks'

/** True if the capabilities of a client (MCP 2026-07-28) name that extension. */
export const takesTasks = ({ extensions }: Readonly<Record<string, unknown>>): boolean =>
  isObject(extensions) && isObject(extensions[TASKS])

export const NO_TOOL = 'There is no such tool.'
export const NO_PROMPT = 'There is no such prompt.'
export const NO_RESOURCE = 'There is no such resource.'

/**
 * Options of both SDKs. The validator is for answers of clients, which the call itself checks; without it, the SDK compiles a
 * schema compiler for each request.
 */
export const optionsOf = ({ instructions, resources, prompts, complete }: McpServer) => ({
  capabilities: {
    tools: {},
    ...(resources && { resources: {} }),
    ...(prompts && { prompts: {} }),
    ...(complete && { completions: {} }),
  },
  jsonSchemaValidator: {
    getValidator: () => () => ({ valid: false, data: undefined, errorMessage: 'Not checked here.' }) as const,
  },
  ...(instructions && { instructions }),
})

/** Throws a refusal or a problem as an error of the protocol. @param RpcError the error class of the SDK */
export const asRpcError =
  (RpcError: new (code: number, message: string, data?: unknown) => Error) =>
  (error: unknown): never => {
    if (error instanceof RpcRefusal) throw new RpcError(error.code, error.message, error.data)
    if (!(error instanceof Problem)) throw error
    throw new RpcError(error.status < 500 ? INVALID_PARAMS : INTERNAL_ERROR, error.message)
  }

/** {@link listPage} for handlers of an SDK. @param RpcError its error class */
export const pageFor =
  (RpcError: Parameters<typeof asRpcError>[0]) =>
  <L extends List, E extends Entry>(
    list: L,
    entries: readonly E[],
    params?: { readonly cursor?: string | undefined },
  ) => {
    try {
      return listPage(list, entries, params?.cursor)
    } catch (error) {
      return asRpcError(RpcError)(error)
    }
  }

/** Makes a call whose client may cancel it, if it is of a session. */
export const untilCancelled = <T>(
  { session }: McpServer,
  gone: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> => (session === undefined ? call(gone) : session.cancellable(gone, call))

/** Ends the exchange of a cancelled request: a stream without a response, or an empty answer. */
export function endCancelled(response: ServerResponse): void {
  if (response.writableEnded) return
  if (!response.headersSent) response.writeHead(202)
  response.end()
}

type Report =
  | {
      readonly method: 'notifications/progress'
      readonly params: { progressToken: string | number; progress: number; message: string }
    }
  | {
      readonly method: 'notifications/message'
      readonly params: { level: 'info'; logger: string; data: { step: string } }
    }

/** True if a client with this log level wants messages of steps. */
export const logsSteps = (level: unknown): boolean => level === 'debug' || level === 'info'

/** A report of progress as notifications: as progress if the client has sent a token, as a log message if it has set a level. */
export function reportsOf(
  { progress, message }: Progress,
  { token, logger }: { readonly token: string | number | undefined; readonly logger: string | undefined },
): Report[] {
  const reports: Report[] = []
  if (token !== undefined)
    reports.push({ method: 'notifications/progress', params: { progressToken: token, progress, message } })
  if (logger !== undefined)
    reports.push({
      method: 'notifications/message',
      params: { level: 'info', logger, data: { step: message } },
    })
  return reports
}

interface CompleteParams {
  readonly ref: { readonly type: string; readonly name?: string }
  readonly argument: { readonly name: string; readonly value: string }
}

/** Both protocol versions return at most 100 values. */
export function completion(complete: McpCompletions, { ref, argument }: CompleteParams) {
  const values = ref.type === 'ref/prompt' ? complete(ref.name ?? '', argument.name, argument.value) : []
  return { completion: { values: values.slice(0, 100), total: values.length, hasMore: values.length > 100 } }
}
