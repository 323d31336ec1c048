/** Serves HTTP requests by the export `fetch` of a function: a run as every other, whose bodies are exchanged while it goes on. */

import Type from 'typebox'
import { Input, Ref, workspaceOperation } from '../../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { originOf, workflowsOf } from '../../../access/scope-services.ts'
import { type ByteReply, type ByteSource, Raw, type RawRequest } from '../../../core/bytes.ts'
import { DATA_ROLES } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { channelsOf } from '../channels.ts'
import { forCaller } from '../invoke.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { type StartedRun, startRun } from '../runs/start-run.ts'
import type { HttpResponseHead } from '../sandbox/invocation.ts'
import { isBodiless, replyHeaders, requestHead } from './heads.ts'
import { StreamConnection } from './peer.ts'

const { http: limits } = FUNCTION_LIMITS

export const fetchFunction = workspaceOperation({
  name: 'function.fetch',
  summary: 'Send an HTTP request, of any method, to the export `fetch` of a function',
  roles: DATA_ROLES,
  reads: false,
  input: Input({
    id: Ref('function, or its name'),
    path: Type.String({ description: 'Rest of the path, which the code receives as the path of its URL.' }),
    request: Raw(`Request as received, with a body of at most ${limits.bodyBytesMax} bytes.`),
  }),
  output: Type.Unsafe<ByteReply>(Type.Unknown({ description: 'Response that the code returned.' })),
  http: {
    method: 'POST',
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
    path: '/v1/functions/{id}/http/{path*}',
    body: 'request',
    takes: 'request',
    reply: 'bytes',
    keyInQuery: true,
  },
  run: async (scope, { id, request }) => {
    if ((request.body.length ?? 0) > limits.bodyBytesMax) throw bodyTooLarge()
    const runId = scope.newId('run')
    const peer = await StreamConnection.open(channelsOf(scope), scope.ref, runId, 'client')
    const served = { id, runId, request }
    const started = await startServing(scope, served).catch((error: unknown) => {
      peer.close()
      throw error
    })
    return respond(scope, peer, served, started)
  },
})

interface Served {
  readonly id: string
  readonly runId: string
  readonly request: RawRequest
}

const startServing = async (scope: WorkspaceScope, { id, runId, request }: Served): Promise<StartedRun> =>
  startRun(scope, {
    id,
    runId,
    kind: 'fetch',
    input: requestHead(request, originOf(scope)) as unknown as Json,
    // The scope has the chain depth of a request that a run has sent.
    trigger: { kind: 'http' },
    isAsync: false,
  })

/** Waits for the head of the response. The exchange stays open until the run has ended, or the body is complete. */
async function respond(
  scope: WorkspaceScope,
  peer: StreamConnection,
  { runId, request }: Served,
  { workflowId, waitMs }: StartedRun,
): Promise<ByteReply> {
  const abortRun = async (problem: Problem) => {
    // The code has not begun if its end has not asked for anything; if it begins nevertheless, it is told then.
    if (!(await peer.abort(problem))) await workflowsOf(scope).cancel(workflowId)
  }
  const abort = (problem: Problem) =>
    void abortRun(problem).catch((error) => scope.logError(error, NOT_ENDED))
  const { gone } = request
  const whenGone = () => abort(gone.reason instanceof Problem ? gone.reason : clientGone())
  gone.addEventListener('abort', whenGone)
  if (gone.aborted) whenGone()
  const end = (reason: unknown) => {
    peer.fail(reason)
    peer.close()
  }
  workflowsOf(scope)
    .result(workflowId, waitMs)
    .then(
      () => setTimeout(() => end(new Problem('run_cut_off', { detail: NO_END })), limits.endMs).unref(),
      end,
    )
  sendBody(peer, request).catch((error: unknown) => {
    // A body that is no longer read is no failure.
    const isOver = peer.isClosed || peer.failed.aborted || request.gone.aborted
    if (!isOver && error instanceof Problem) abort(error)
  })
  const head = await peer.head().catch((error: unknown) => {
    throw error instanceof Problem ? forCaller(error, scope, runId) : error
  })
  return replyOf(head, request, runId, peer)
}

const clientGone = () =>
  new Problem('run_cut_off', {
    detail: 'The client closed the connection before it had the whole response.',
  })
const NO_END = 'The end of the response was lost.'
const NOT_ENDED = 'a function that serves a client who is gone was not ended'

/** Sends the body as the code reads it. A body that is not asked for is not read. */
async function sendBody(peer: StreamConnection, { method, body }: RawRequest): Promise<void> {
  await peer.awaitCredit()
  if (method !== 'GET' && method !== 'HEAD' && body.length !== 0)
    for await (const chunk of limited(body)) await peer.write(chunk)
  await peer.end()
}

/** @throws Problem `body_too_large`, `body_incomplete` */
async function* limited({ chunks, length }: ByteSource): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.byteLength
    if (bytes > limits.bodyBytesMax) throw bodyTooLarge()
    yield chunk
  }
  if (length !== undefined && bytes !== length) throw new Problem('body_incomplete')
}

const bodyTooLarge = () =>
  new Problem('body_too_large', {
    detail: `A function takes a body of at most ${limits.bodyBytesMax} bytes.`,
  })

function replyOf(
  head: HttpResponseHead,
  { method }: RawRequest,
  runId: string,
  peer: StreamConnection,
): ByteReply {
  const { status } = head
  const headers = { ...replyHeaders(head), 'x-run-id': runId }
  if (isBodiless(method, status)) {
    peer.close()
    return { status, headers }
  }
  return { status, headers, chunks: readBody(peer), discard: () => leave(peer) }
}

/** @throws Problem if the response does not become complete, which closes the connection */
async function* readBody(peer: StreamConnection): AsyncGenerator<Uint8Array> {
  try {
    // The head is sent before the code has written anything.
    yield new Uint8Array(0)
    yield* peer.chunks()
    peer.close()
  } finally {
    leave(peer)
  }
}

/** Ends the code, too, unless the response is complete. */
function leave(peer: StreamConnection): void {
  if (peer.isClosed) return
  void peer.abort(clientGone())
  peer.close()
}
