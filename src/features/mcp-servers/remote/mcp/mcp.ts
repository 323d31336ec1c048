/** MCP servers as sources. A tool is called only while its server defines it as it was frozen in the published version. */

import { LRUCache } from 'lru-cache'
import type { WorkspaceScope } from '../../../../access/scope.ts'
import { Problem } from '../../../../core/problem.ts'
import { redactText } from '../../../../core/redact.ts'
import { sentences } from '../../../../core/text/sentences.ts'
import { inThread } from '../../../threads/run-in-thread.ts'
import type { Progress } from '../../calls/call-client.ts'
import { MCP_LIMITS } from '../../limits.ts'
import type { ToolOutput } from '../../tool.ts'
import type { PinnedDefinitions } from '../definitions.ts'
import { sendRemote } from '../remote-http.ts'
import { resolveHeaders, type SourceHeaders } from '../source-headers.ts'
import type { PinnedSource, RemoteSource, SourceKind } from '../source-kind.ts'
import { storeRead } from '../source-store.ts'
import type { Post } from './json-rpc.ts'
import { callUpstreamTool, forgetConnection, listUpstreamTools } from './mcp-client.ts'
import { outputOf } from './mcp-output.ts'
import { type ParamHeader, paramHeaders } from './param-headers.ts'

/** The hash of each tool as its server defined it a short while ago, by source. */
const CURRENT = new LRUCache<string, Promise<ReadonlyMap<string, string>>>({
  max: MCP_LIMITS.upstream.sourcesCachedMax,
  ttl: MCP_LIMITS.upstream.currentMs,
})

const keyOf = ({ ref }: WorkspaceScope, { id }: RemoteSource) => `${ref.tenantId}:${ref.workspaceId}:${id}`

export const mcpServer: SourceKind = {
  read: async (scope, source) => {
    const key = keyOf(scope, source)
    forgetConnection(key)
    const read = await readTools(scope, source)
    CURRENT.set(key, Promise.resolve(hashesByKey(read)))
    return read
  },
  call: async (scope, source, { definition, args, waiting }) => {
    const [hashes, resolved] = await Promise.all([
      readCurrent(scope, source),
      resolveHeaders(scope, source.headers),
    ])
    const hash = hashes.get(definition.key)
    if (hash !== definition.hash) throw drifted(source, definition.key, hash === undefined)
    // A server may keep what one caller did in its session, so that no other caller gets that session.
    const owner = `${keyOf(scope, source)}:${scope.actor.subject}`
    const post = postTo(scope, source, resolved, waiting)
    const { headers = [] } = definition.call as { readonly headers?: readonly ParamHeader[] }
    const onProgress = waiting.onProgress && shownProgress(waiting.onProgress, resolved)
    const call = {
      name: definition.key,
      args,
      headers: paramHeaders(headers, args),
      ...(onProgress && { onProgress }),
    }
    const reply = await callUpstreamTool({ owner, post }, call).catch(withAdvice)
    return withoutSecrets(outputOf(reply, Object.hasOwn(definition.call, 'output_schema')), resolved)
  },
}

/**
 * The current hash of each tool. Concurrent calls wait for one reading.
 * @throws Problem if the server cannot be read: then it cannot be called, either
 */
function readCurrent(scope: WorkspaceScope, source: PinnedSource): Promise<ReadonlyMap<string, string>> {
  const key = keyOf(scope, source)
  const known = CURRENT.get(key)
  if (known !== undefined) return known
  const reading = readAndStore(scope, source)
  CURRENT.set(key, reading)
  reading.catch(() => {
    if (CURRENT.peek(key) === reading) CURRENT.delete(key)
  })
  return reading
}

/** Admins see a difference when it is found, not only when they ask. */
async function readAndStore(
  scope: WorkspaceScope,
  source: PinnedSource,
): Promise<ReadonlyMap<string, string>> {
  const read = await readTools(scope, source)
  if (source.state !== 'ready' || read.hash !== source.hash) await storeRead(scope, source, read)
  return hashesByKey(read)
}

const hashesByKey = ({ hashes }: PinnedDefinitions) => new Map(hashes.map(({ key, hash }) => [key, hash]))

/** @throws Problem without secrets: it is stored and shown */
async function readTools(scope: WorkspaceScope, source: RemoteSource): Promise<PinnedDefinitions> {
  const resolved = await resolveHeaders(scope, source.headers)
  const post = postTo(scope, source, resolved, { timeoutMs: MCP_LIMITS.upstream.listMs })
  const peer = { owner: keyOf(scope, source), post }
  const tools = await listUpstreamTools(peer).catch(shownProblem(resolved.redact))
  return pinTools(scope, source, tools)
}

/** @returns a function that throws what it gets, a problem without the texts that `redact` takes out */
export const shownProblem =
  (redact: SourceHeaders['redact']) =>
  (error: unknown): never => {
    if (!(error instanceof Problem)) throw error
    const { code, message, hint, adminHint, members, cause } = error
    const redacted = JSON.parse(redact(JSON.stringify(members))) as Record<string, unknown>
    throw new Problem(code, {
      detail: redact(message),
      ...(hint && { hint }),
      ...(adminHint && { adminHint }),
      members: redacted,
      cause,
    })
  }

/**
 * The tools that a server lists as definitions.
 * @throws Problem `upstream_invalid` if they are too large together, or take too much time
 */
export async function pinTools(
  scope: WorkspaceScope,
  source: RemoteSource,
  tools: readonly unknown[],
): Promise<PinnedDefinitions> {
  const input = { source: source.name, listed: tools }
  const ran = await inThread(scope, 'mcpTools', input, MCP_LIMITS.upstream.definitionsCpuMs)
  if (!('value' in ran))
    throw new Problem('upstream_invalid', { detail: 'The tools of the server take too much time to read.' })
  if ('fault' in ran.value) throw new Problem('upstream_invalid', { detail: ran.value.fault })
  return ran.value.pinned
}

/** @param timeoutMs of all requests together */
function postTo(
  scope: WorkspaceScope,
  { url }: RemoteSource,
  resolved: SourceHeaders,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
): Post {
  const untilMs = performance.now() + timeoutMs
  return (headers, body, { wantedPart }) => {
    const outbound = {
      method: 'POST',
      url: new URL(url),
      headers: { ...resolved.headers, ...headers },
      body,
    }
    return sendRemote(scope, outbound, {
      timeoutMs: Math.max(1, untilMs - performance.now()),
      bytesMax: MCP_LIMITS.upstream.responseBytesMax,
      reusesAlways: true,
      ...(signal && { signal }),
      ...(wantedPart && { wantedPart }),
    })
  }
}

const MESSAGE_CHARS_MAX = 200

/** Messages of the server are shown to people: without credentials, in one line, and short. */
const shownProgress =
  (onProgress: (progress: Progress) => void, { redact }: Pick<SourceHeaders, 'redact'>) =>
  ({ progress, message }: Progress): void => {
    const line = redactText(redact(message))
      .replaceAll(/[\p{C}\s]+/gu, ' ')
      .trim()
    const text = line.slice(0, MESSAGE_CHARS_MAX).toWellFormed()
    onProgress({ progress, message: text || 'The server of the tool is working.' })
  }

export function drifted({ name }: RemoteSource, tool: string, isGone: boolean): Problem {
  const found = isGone ? 'has no such tool any more' : 'defines it otherwise now'
  return new Problem('source_drifted', {
    detail: `The tool ${tool} is not called: its source ${name} ${found}.`,
    adminHint:
      'An admin reviews the change, accepts it with POST …/sources/{source}/refresh, and publishes the server again.',
  })
}

/** @throws the problem; it says so if the call may have been carried out */
function withAdvice(error: unknown): never {
  if (!(error instanceof Problem) || error.members['may_have_arrived'] !== true) throw error
  const detail = sentences(error.message, 'The call may have been carried out: check before you repeat it.')
  throw new Problem(error.code, { detail, cause: error })
}

/** Servers may repeat the credentials that they get. */
export function withoutSecrets(result: ToolOutput, { redact }: Pick<SourceHeaders, 'redact'>): ToolOutput {
  const json = JSON.stringify(result.output)
  const redacted = redact(json)
  return redacted === json ? result : { ...result, output: JSON.parse(redacted) }
}
