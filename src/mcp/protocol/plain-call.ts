/**
 * Answers a plain `tools/call` of any protocol version: one request, one JSON document, no progress, no task. The SDKs validate
 * and convert each message several times, which takes 0.1 and 0.2 ms of CPU a call, half of it (docs/performance.md). They
 * answer all else, and what is wrong; plain-call.test.ts compares the answers.
 */

import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { McpError, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js'
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  SERVER_INFO_META_KEY,
  specTypeSchemas,
} from '@modelcontextprotocol/server'
import { isObject } from '../../core/json.ts'
import type { CallClient } from '../../features/mcp-servers/calls/call-client.ts'
import { INVALID_PARAMS, MISSING_CAPABILITY } from '../../features/mcp-servers/calls/client-requests.ts'
import { onClose } from '../../infra/response-close.ts'
import { CallCancelled, type McpServer } from './mcp-server.ts'
import { asRpcError, type Exchange, endCancelled, NO_TOOL, takesTasks, untilCancelled } from './serving.ts'

const MODERN = '2026-07-28'
const METHOD = 'tools/call'

export interface PlainCall {
  readonly id: string | number
  readonly name: string
  readonly args: Record<string, unknown>
  readonly isModern: boolean
  readonly client: CallClient
}

/** The call of an exchange. @returns undefined for any other message, and for anything that is not as the protocol has it */
export function plainCall(
  { request: { headers }, body }: Exchange,
  { session }: McpServer,
): PlainCall | undefined {
  const { accept = '', 'content-type': type } = headers
  if (type !== 'application/json' || !accept.includes(type) || !accept.includes('text/event-stream'))
    return undefined
  if (!hasOnly(body, MEMBERS) || body['jsonrpc'] !== '2.0' || body['method'] !== METHOD) return undefined
  const { id, params } = body
  if (!isId(id) || !hasOnly(params, PARAMS)) return undefined
  const { name, arguments: args = {}, _meta: meta = {} } = params
  if (typeof name !== 'string' || !isObject(args) || !isObject(meta)) return undefined
  const call = { id, name, args: { ...args } }
  if (PROTOCOL_VERSION_META_KEY in meta) {
    const client = modernClient(headers, name, meta)
    return client && { ...call, isModern: true, client }
  }
  const isStream = session !== undefined && (session.mayRequestInput || session.logsSteps)
  if (isStream || !isLegacyVersion(headers) || Object.keys(meta).length > 0) return undefined
  return { ...call, isModern: false, client: { takesTasks: false } }
}

const MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params'])
/** Without those of tasks and of responses to input requests. */
const PARAMS: ReadonlySet<string> = new Set(['name', 'arguments', '_meta'])
/** Without those that ask for progress, log messages or traces. */
const ENVELOPE: ReadonlySet<string> = new Set([
  PROTOCOL_VERSION_META_KEY,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
])

const hasOnly = (value: unknown, names: ReadonlySet<string>): value is Readonly<Record<string, unknown>> =>
  isObject(value) && Object.keys(value).every((name) => names.has(name))

const isId = (id: unknown): id is string | number => typeof id === 'string' || Number.isSafeInteger(id)

const isLegacyVersion = ({ 'mcp-protocol-version': version }: IncomingHttpHeaders): boolean =>
  version === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(String(version))

/** The client of a request whose headers say what its body says. One that takes tasks is left to the SDK. */
function modernClient(
  headers: IncomingHttpHeaders,
  name: string,
  meta: Readonly<Record<string, unknown>>,
): CallClient | undefined {
  const { 'mcp-protocol-version': version, 'mcp-method': method, 'mcp-name': named } = headers
  if (version !== MODERN || meta[PROTOCOL_VERSION_META_KEY] !== MODERN || method !== METHOD) return undefined
  // `=?base64?…?=` stands for another name.
  if (named !== name || name.startsWith('=?') || !hasOnly(meta, ENVELOPE)) return undefined
  const capabilities = meta[CLIENT_CAPABILITIES_META_KEY]
  const { [CLIENT_INFO_META_KEY]: info } = meta
  if (!isObject(capabilities) || !isValid('ClientCapabilities', capabilities)) return undefined
  if (info !== undefined && !isValid('Implementation', info)) return undefined
  return takesTasks(capabilities) ? undefined : { capabilities, takesTasks: false }
}

const isValid = (type: 'ClientCapabilities' | 'Implementation', value: unknown): boolean =>
  !('issues' in specTypeSchemas[type]['~standard'].validate(value))

/** Calls the tool and writes the response. @throws what is no refusal of the call */
export async function answerPlainCall(
  response: ServerResponse,
  server: McpServer,
  { id, name, args, isModern, client }: PlainCall,
): Promise<void> {
  const gone = new AbortController()
  onClose(response, () => {
    if (!response.writableFinished) gone.abort()
  })
  const RpcError = isModern ? ProtocolError : McpError
  try {
    const use = (signal: AbortSignal) => server.call(name, args, { ...client, signal })
    const result = await untilCancelled(server, gone.signal, use).catch(asRpcError(RpcError))
    if (result === undefined) throw new RpcError(INVALID_PARAMS, NO_TOOL)
    write(response, 200, { result: isModern ? modernResult(result, server) : result, jsonrpc: '2.0', id })
  } catch (error) {
    if (error instanceof CallCancelled) return endCancelled(response)
    if (!(error instanceof RpcError)) throw error
    const { code, message, data } = error
    const status = code === MISSING_CAPABILITY && isModern ? 400 : 200
    write(response, status, {
      jsonrpc: '2.0',
      id,
      error: { code, message, ...(data !== undefined && { data }) },
    })
  }
}

const modernResult = (result: object, { name, version }: McpServer) => ({
  resultType: 'complete',
  ...result,
  _meta: { ...(result as { _meta?: object })._meta, [SERVER_INFO_META_KEY]: { name, version } },
})

function write(response: ServerResponse, status: number, message: object): void {
  if (response.writableEnded) return
  const text = JSON.stringify(message)
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    .end(text)
}
