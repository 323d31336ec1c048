/** Starts workflows for the API on the same machine, so that this worker gets their first tasks at once. */

import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import proto from '@temporalio/proto'
import type { NativeConnection } from '@temporalio/worker'
import { counted } from '../core/bytes.ts'
import { LIMITS } from '../core/limits.ts'

const { StartWorkflowExecutionRequest } = proto.temporal.api.workflowservice.v1

export interface NearStartsDoor {
  /** Takes no more; what is under way is finished. */
  close(): Promise<void>
}

/**
 * Listens for `POST`s of a StartWorkflowExecutionRequest; answers 200 with the id of the run, else 503, upon which the
 * asker makes the start itself and hears what is the matter.
 * @param path of the Unix socket; workers reject starts whose input the platform has not sealed, as they do Temporal's
 * @param at the workers' own connection: a first task is given to a worker of the connection that made the start
 */
export async function openEagerStartServer(
  path: string,
  { connection, namespace }: { readonly connection: NativeConnection; readonly namespace: string },
): Promise<NearStartsDoor> {
  const start = async (asked: IncomingMessage) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of counted({ chunks: asked }, LIMITS.eagerStart.bytesMax)) chunks.push(chunk)
    const request = StartWorkflowExecutionRequest.decode(Buffer.concat(chunks))
    if (request.namespace !== namespace) throw new TypeError('another namespace')
    const eager = { requestEagerExecution: request.workflowStartDelay == null }
    const started = await connection.workflowService.startWorkflowExecution(Object.assign(request, eager))
    return started.runId
  }
  const server = createServer((asked, reply) => {
    start(asked).then(
      (runId) => reply.end(runId),
      () => reply.writeHead(503).end(),
    )
  })
  // What a worker that was killed has left.
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
