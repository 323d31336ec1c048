/** Starts workflows for the API on the same machine, so that Temporal returns their first tasks to this worker at once. */

import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import proto from '@temporalio/proto'
import type { NativeConnection } from '@temporalio/worker'
import { counted } from '../../core/bytes.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'

const { StartWorkflowExecutionRequest } = proto.temporal.api.workflowservice.v1

export interface EagerStartServer {
  /** Accepts no more connections, and resolves when open requests have been answered. */
  close(): Promise<void>
}

/**
 * Listens for `POST`s of a StartWorkflowExecutionRequest. Responds 102 when it has taken a request, then 200 with the run id, or 503:
 * then the client starts the workflow itself, and gets Temporal's own error.
 * @param path the Unix socket. It needs no authentication: workers reject input that the platform has not encrypted
 * @param at the connection of the workers: Temporal gives the first task to a worker of the connection that made the start
 */
export async function openEagerStartServer(
  path: string,
  { connection, namespace }: { readonly connection: NativeConnection; readonly namespace: string },
): Promise<EagerStartServer> {
  const start = async (message: IncomingMessage, onTaken: () => void) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of counted({ chunks: message }, INFRA_LIMITS.eagerStart.bytesMax))
      chunks.push(chunk)
    const request = StartWorkflowExecutionRequest.decode(Buffer.concat(chunks))
    if (request.namespace !== namespace) throw new TypeError('the request is for another namespace')
    onTaken()
    const eager = { requestEagerExecution: request.workflowStartDelay == null }
    const started = await connection.workflowService.startWorkflowExecution(Object.assign(request, eager))
    return started.runId
  }
  const server = createServer((message, reply) => {
    start(message, () => reply.writeProcessing()).then(
      (runId) => reply.end(runId),
      () => reply.writeHead(503).end(),
    )
  })
  // A worker that was killed leaves its socket file behind.
  await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeIdleConnections()
      }),
  }
}
