/** Sources of kind `openapi`: the operations of a document, called over HTTP with the headers of the source. */

import { STATUS_CODES } from 'node:http'
import type { WorkspaceScope } from '../../../../access/scope.ts'
import { exceedsDepth, isTooDeep } from '../../../../core/json.ts'
import { Problem } from '../../../../core/problem.ts'
import { sentences } from '../../../../core/text/sentences.ts'
import { decodeText, isJson, isText } from '../../../../infra/http-client/content.ts'
import { type Inbound, isSafe, type Outbound } from '../../../../infra/http-client/egress.ts'
import { fieldProblem } from '../../../operation-helpers.ts'
import { inThread } from '../../../threads/run-in-thread.ts'
import { type Content, mimeTypeOf } from '../../calls/content.ts'
import { MCP_LIMITS } from '../../limits.ts'
import type { ToolOutput } from '../../tool.ts'
import type { PinnedDefinitions } from '../definitions.ts'
import { USER_AGENT } from '../header-names.ts'
import { sendRemote } from '../remote-http.ts'
import { resolveHeaders, type SourceHeaders } from '../source-headers.ts'
import type { RemoteSource, SourceKind, Waiting } from '../source-kind.ts'
import type { OpenApiCall } from './read-tools.ts'
import { encoded, requestOf } from './request.ts'

export const openApi: SourceKind = {
  read: async (scope, source, document) => {
    const isGiven = document !== undefined
    const text = isGiven ? givenText(document) : await fetchText(scope, source)
    const refusal = (detail: string) =>
      isGiven ? fieldProblem('document', detail) : new Problem('upstream_invalid', { detail })
    return readText(scope, source, text, refusal)
  },
  call: async (scope, source, { definition: { call }, args, waiting }) => {
    const resolved = await resolveHeaders(scope, source.headers)
    const outbound = await encoded(requestOf(call as unknown as OpenApiCall, args, resolved.headers))
    return outputOf(await send(scope, outbound, waiting), outbound.url, resolved)
  },
}

/** @throws Problem `validation_failed` if it is too large or too deep */
function givenText(document: unknown): string {
  const { documentBytesMax: most, documentDepthMax: depth } = MCP_LIMITS.sources
  if (exceedsDepth(document, depth)) throw fieldProblem('document', `It is nested deeper than ${depth}.`)
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  if (Buffer.byteLength(text) <= most) return text
  throw fieldProblem('document', `It has more than ${most} bytes.`)
}

/** Sends the headers of the source to its own server alone. */
async function fetchText(scope: WorkspaceScope, { url, base_url, headers }: RemoteSource): Promise<string> {
  const isOwn = base_url === null || new URL(base_url).origin === new URL(url).origin
  const resolved = await resolveHeaders(scope, isOwn ? headers : {})
  const outbound = {
    method: 'GET',
    url: new URL(url),
    headers: {
      accept: 'application/json, application/yaml;q=0.9, */*;q=0.8',
      'user-agent': USER_AGENT,
      ...resolved.headers,
    },
  }
  const bounds = {
    timeoutMs: MCP_LIMITS.sources.documentFetchMs,
    bytesMax: MCP_LIMITS.sources.documentBytesMax,
  }
  const inbound = await sendRemote(scope, outbound, bounds)
  if (inbound.status === 200) return new TextDecoder().decode(inbound.body)
  const { origin, pathname } = outbound.url
  const moved = inbound.headers['location'] === undefined ? '' : ', a redirect to another server'
  throw new Problem('upstream_invalid', {
    detail: `The document at ${origin}${pathname} cannot be read: the server answered ${inbound.status}${moved}.`,
  })
}

/** Reads the tools in a worker thread. */
async function readText(
  scope: WorkspaceScope,
  { url, base_url, headers }: RemoteSource,
  text: string,
  refusal: (detail: string) => Problem,
): Promise<PinnedDefinitions> {
  const input = { text, url, base_url, headers: Object.keys(headers) }
  const ran = await inThread(scope, 'openApiTools', input, MCP_LIMITS.sources.documentCpuMs)
  if (!('value' in ran)) {
    const seconds = MCP_LIMITS.sources.documentCpuMs / 1_000
    throw refusal(
      `The document takes more than ${seconds} s or too much memory to read. JSON is faster than YAML.`,
    )
  }
  if ('fault' in ran.value) throw refusal(ran.value.fault)
  return ran.value.pinned
}

/** @throws Problem without a response; it says so if the request may have been carried out */
async function send(
  scope: WorkspaceScope,
  outbound: Outbound,
  { timeoutMs, signal }: Waiting,
): Promise<Inbound> {
  const excerptBytes = (status: number) => (isFailure(status) ? MCP_LIMITS.sources.errorBytesMax : undefined)
  const bounds = {
    timeoutMs,
    bytesMax: MCP_LIMITS.sources.responseBytesMax,
    excerptBytes,
    signal,
  }
  return sendRemote(scope, outbound, bounds).catch((error: unknown) => {
    if (!(error instanceof Problem) || isSafe(outbound.method) || !mayHaveArrived(error)) throw error
    const detail = sentences(
      error.message,
      `The ${outbound.method} may have been carried out: check before you repeat it.`,
    )
    throw new Problem(error.code, { detail, cause: error })
  })
}

/** A response that is too large came after the request. */
const mayHaveArrived = ({ code, members }: Problem) =>
  code === 'upstream_invalid' || members['may_have_arrived'] === true

const isFailure = (status: number) => status < 200 || status > 299

/** JSON, text or a file. A response that is no success is an output that failed: its status, and the beginning of its text. */
function outputOf(inbound: Inbound, url: URL, { redact }: SourceHeaders): ToolOutput {
  const { status, headers, body } = inbound
  const answered = `The server answered ${status} ${STATUS_CODES[status] ?? ''}`.trim()
  if (isFailure(status)) {
    const moved = status >= 300 && status < 400 ? ` Redirects to other servers are not followed.` : ''
    const excerpt = isJson(inbound) || isText(inbound) ? redact(decodeText(inbound)) : ''
    const beginning = excerpt.slice(0, MCP_LIMITS.sources.errorCharsMax).toWellFormed()
    return { output: [`${answered}.${moved}`, beginning].filter(Boolean).join('\n'), failed: true }
  }
  if (body.length === 0) return { output: `${answered}, without content.`, failed: false }
  if (!isJson(inbound) && !isText(inbound))
    return { output: null, failed: false, content: [fileOf(headers['content-type'] ?? '', body, url)] }
  return { output: parsed(redact(decodeText(inbound)), isJson(inbound)), failed: false }
}

/** @param url of the request; without the query, which may have credentials */
function fileOf(contentType: string, body: Buffer, { origin, pathname }: URL): Content {
  const mimeType = mimeTypeOf(contentType)
  const data = body.toString('base64')
  const type = /^(image|audio)\//.exec(mimeType)?.[1] as 'image' | 'audio' | undefined
  if (type !== undefined) return { type, data, mimeType }
  return { type: 'resource', resource: { uri: `${origin}${pathname}`, mimeType, blob: data } }
}

/** Invalid JSON stays a text. @throws Problem `upstream_invalid` for a value that is nested too deep */
function parsed(text: string, isJsonType: boolean): unknown {
  if (!isJsonType) return text
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return text
  }
  if (!isTooDeep(value)) return value
  throw new Problem('upstream_invalid', { detail: 'The response is nested too deep.' })
}
