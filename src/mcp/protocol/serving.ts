/** Options, texts, pages of lists and completions that the servers of both generations of the protocol share. */

import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem } from '../../core/problem.ts'
import type { Progress } from '../../features/mcp-servers/calls/call-client.ts'
import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  RpcRefusal,
} from '../../features/mcp-servers/calls/client-requests.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import type { McpCompletions, McpServer } from './mcp-server.ts'

/** A POST whose body has been read. {@link serve} writes the whole response. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: unknown
}

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

/** The error class of an SDK. */
type RpcErrorClass = new (code: number, message: string, data?: unknown) => Error

/** Throws a refusal or a problem as an error of the protocol. @param RpcError the error class of the SDK */
export const asRpcError =
  (RpcError: RpcErrorClass) =>
  (error: unknown): never => {
    if (error instanceof RpcRefusal) throw new RpcError(error.code, error.message, error.data)
    if (!(error instanceof Problem)) throw error
    throw new RpcError(error.status < 500 ? INVALID_PARAMS : INTERNAL_ERROR, error.message)
  }

/** The lists of a server, by their member in the response. */
type List = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'

/** An entry; its key in the list is one of these. */
interface Entry {
  readonly name: string
  readonly uri?: string
  readonly uriTemplate?: string
}

/** A page of a list as the response to a request for it. */
type Page<L extends List, E> = { [list in L]: E[] } & { nextCursor?: string }

/**
 * Pages of lists (MCP, "Pagination"): the first one, or the one after a cursor. All tools are on the first one: some clients
 * read no other. Clients return `nextCursor` for the next page. A cursor is good for the list that it came from: if an entry is
 * added, removed or renamed, the client begins anew.
 * @param RpcError the error class of the SDK: -32602 for a cursor that this list has not given
 */
export const pageFor =
  (RpcError: RpcErrorClass) =>
  <L extends List, E extends Entry>(
    list: L,
    entries: readonly E[],
    { cursor }: { readonly cursor?: string | undefined } = {},
  ): Page<L, E> => {
    const size = list === 'tools' ? entries.length : MCP_LIMITS.pageEntriesMax
    const cursors = entries.length > size ? cursorsOf(list, entries, size) : []
    // Cursors are compared and never parsed, so a forged one reaches no code.
    const previous = cursor === undefined ? -1 : cursors.indexOf(cursor)
    if (cursor !== undefined && previous < 0)
      throw new RpcError(INVALID_PARAMS, 'cursor is not of this list as it is now. Begin without it.')
    const start = (previous + 1) * size
    const nextCursor = cursors[previous + 1]
    const page = { [list]: entries.slice(start, start + size) } as { [list in L]: E[] }
    return { ...page, ...(nextCursor !== undefined && { nextCursor }) }
  }

/** One for each page but the first. */
function cursorsOf(list: List, entries: readonly Entry[], size: number): string[] {
  const keys = entries.map(({ uri, uriTemplate, name }) => uri ?? uriTemplate ?? name)
  const digest = createHash('sha256')
    .update(JSON.stringify([list, keys]))
    .digest('base64url')
  const count = Math.ceil(entries.length / size) - 1
  return Array.from({ length: count }, (_, index) => `${digest}.${(index + 1) * size}`)
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
