/** Describes executions in the CLI, with the location of their error in the published source. */

import { nodeAt } from '../../../flows-dsl/compile/source-nodes.ts'
import { excerptOf } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { type ApiClient, ApiError } from '../client.ts'
import { type Output, paint } from '../terminal.ts'
import { errorText, type Head } from './drawing.ts'

export interface Step {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly pointer: string
  readonly summary: string
  readonly status: string
  readonly attempt: number
  readonly error: unknown
  readonly started_at: string
  readonly ended_at: string | null
}

interface Queue {
  /** 1 is the next. */
  readonly position: number
  readonly limit: number
  readonly running: number
}

export interface Execution {
  readonly id: string
  readonly flow_id: string
  readonly version: number
  readonly status: string
  readonly output?: unknown
  readonly payloads?: 'hidden'
  readonly error: unknown
  readonly trigger: { readonly kind: string }
  readonly correlation_key: string | null
  readonly event_gap: { readonly from: string; readonly to: string } | null
  readonly started_at: string
  readonly ended_at: string | null
  readonly overdue: boolean
  readonly steps?: readonly Step[]
  /** Set if `steps` is incomplete. */
  readonly steps_omitted?: { readonly total: number }
  /** While it waits for a concurrency slot. */
  readonly queue?: Queue
  readonly temporal_url?: string
}

export const headOf = ({ id, version, status, started_at, queue }: Execution, flow: string): Head => ({
  flow,
  version,
  id,
  status,
  startedMs: Date.parse(started_at),
  ...(queue !== undefined && { waitingFor: queueText(queue) }),
})

/** Position in the queue for a concurrency slot. */
export const queueText = ({ position, limit, running }: Queue): string =>
  `position ${position} in the queue, ${running} of ${limit} slots in use`

/** The name of the flow; its id if the flow was deleted. */
export async function readFlowName(client: ApiClient, base: string, { flow_id }: Execution): Promise<string> {
  try {
    return (await client.get<{ name: string }>(`${base}/definitions/${flow_id}`)).name
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return flow_id
    throw error
  }
}

/** Prints the error of an execution, with its line of the published source. */
export async function printFault(
  client: ApiClient,
  base: string,
  { flow_id, version, error }: Execution,
  output: Output,
): Promise<void> {
  if (error === null || error === undefined) return
  const { instance } = error as { instance?: unknown }
  const pointer = typeof instance === 'string' ? instance : ''
  output.write(`${paint('red', errorText(error), output)}${pointer === '' ? '' : `\n  at ${pointer}`}\n`)
  const answer = answerText(error)
  if (answer !== undefined) output.write(`  answer: ${answer}\n`)
  const path = `${base}/definitions/${flow_id}/versions/${version}`
  const excerpt =
    pointer === '' ? undefined : await excerptAt((await client.get<{ source: string }>(path)).source, pointer)
  if (excerpt !== undefined) output.write(`${excerpt.replace(/\^$/, paint('red', '^', output))}\n`)
}

const ANSWER_CHARS = 300

/** The content of the response that failed a call, on one line. */
function answerText(error: unknown): string | undefined {
  const { response } = error as { response?: { content?: unknown } }
  const { content } = response ?? {}
  if (content === undefined || content === null) return undefined
  const text = (typeof content === 'string' ? content : JSON.stringify(content)).replaceAll(/\s+/g, ' ')
  return text.length > ANSWER_CHARS ? `${text.slice(0, ANSWER_CHARS)}…` : text
}

async function excerptAt(source: string, pointer: string): Promise<string | undefined> {
  const { compileFlow } = await import('../stack/local-compiler.ts')
  const { definition } = compileFlow(source)
  const at = definition && nodeAt(definition, pointer)?.at
  return at && excerptOf(source.split('\n')[at.line - 1] ?? '', at.line, at.column)
}
