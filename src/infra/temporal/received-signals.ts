/** Finds a signal in the history of a workflow, which shows what was delivered even after the workflow has ended. */

import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import type { temporal } from '@temporalio/proto'
import { isUnknownWork } from './errors.ts'

type Event = temporal.api.history.v1.IHistoryEvent

const PAGE_EVENTS = 200

/**
 * @param isIt a condition on the value of the signal
 * @throws WorkflowNotFoundError if the server has no such workflow, or none any more; errors of the service
 */
export async function hasReceivedSignal(
  client: Client,
  { workflowId, name }: { readonly workflowId: string; readonly name: string },
  isIt: (value: unknown) => boolean,
): Promise<boolean> {
  for await (const event of eventsBackwards(client, workflowId)) {
    const signal = event.workflowExecutionSignaledEventAttributes
    if (signal?.signalName !== name) continue
    const [payload] = await decode(client, workflowId, signal.input?.payloads ?? [])
    // No reader can open a signal that the platform has not sealed, not even the workflow.
    if (payload !== undefined && isJson(payload) && isIt(defaultPayloadConverter.fromPayload(payload)))
      return true
  }
  return false
}

/** The events of all runs of a workflow, the last first. */
async function* eventsBackwards(client: Client, workflowId: string): AsyncGenerator<Event> {
  const { namespace } = client.options
  let [runId, nextPageToken]: [string, Uint8Array] = ['', new Uint8Array()]
  do {
    const execution = { workflowId, runId }
    const asked = { namespace, execution, maximumPageSize: PAGE_EVENTS, nextPageToken }
    const page = await client.workflowService
      .getWorkflowExecutionHistoryReverse(asked)
      .catch((error: unknown) => {
        if (!isUnknownWork(error)) throw error
        throw new WorkflowNotFoundError('no history is kept of the workflow', workflowId, runId)
      })
    const events = page.history?.events ?? []
    yield* events
    nextPageToken = page.nextPageToken ?? new Uint8Array()
    // The run from which the workflow has continued as this one.
    if (nextPageToken.length === 0)
      runId = events.at(-1)?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? ''
  } while (nextPageToken.length > 0 || runId !== '')
}

async function decode(client: Client, workflowId: string, payloads: Payload[]): Promise<Payload[]> {
  const context = { type: 'workflow' as const, namespace: client.options.namespace, workflowId }
  let decoded = payloads
  for (const codec of client.options.loadedDataConverter.payloadCodecs)
    decoded = await codec.decode(decoded, context)
  return decoded
}

const isJson = ({ metadata }: Payload): boolean =>
  Buffer.from(metadata?.['encoding'] ?? []).toString() === 'json/plain'
