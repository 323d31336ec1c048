/** Makes the first requests of a run while Temporal writes down that it begins: when it asks, they are answered. */

import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import type { temporal } from '@temporalio/proto'
import { randomIds } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import type { FlowRunInput } from '../core/run.ts'
import { refOf } from '../core/tenant.ts'
import { isElsewhere, type TenantCodec } from '../platform/payloads/codec.ts'
import { Recent } from '../platform/recent.ts'
import { type First, fromTheStart } from './ahead.ts'
import type { FunctionCall, Tried } from './contract.ts'
import type { Call } from './door.ts'

type Start = temporal.api.workflowservice.v1.IStartWorkflowExecutionRequest
type Fields = Readonly<Record<string, Payload>>

const { ahead, beginnings } = LIMITS.briefCalls

/**
 * Nothing depends on it: a run that finds no answer here, or has another question, asks by itself. So it goes wrong
 * in silence, and is given up for flows that begin with something else.
 */
export class Beginnings {
  readonly #codec: Pick<TenantCodec, 'decode'>
  readonly #ask: (call: Call, request: FunctionCall) => Promise<Tried | null>
  /** By the ids of workflows that have not asked yet. */
  readonly #kept = new Map<string, Promise<First | undefined>>()
  /** Versions of flows of which nothing was foreseen: as a rule, nothing will be. */
  readonly #vain = new Recent<true>(beginnings.vainKept)

  /** @param ask makes a request, if that is over in a moment */
  constructor(
    codec: Pick<TenantCodec, 'decode'>,
    ask: (call: Call, request: FunctionCall) => Promise<Tried | null>,
  ) {
    this.#codec = codec
    this.#ask = ask
  }

  /** A start is on its way. Waits for nothing. @returns how to say that it was not made */
  begin({ workflowId, workflowType, input, searchAttributes }: Start): () => void {
    const [payload] = input?.payloads ?? []
    const version = versionIn(searchAttributes?.indexedFields)
    if (workflowType?.name !== 'flowRun' || !workflowId || !payload || version === undefined) return () => {}
    if (this.#vain.has(version) || this.#kept.size >= beginnings.keptMax) return () => {}
    const first = this.#first(workflowId, payload, version)
    const forget = () => void this.#kept.delete(workflowId)
    this.#kept.set(
      workflowId,
      first.catch(() => undefined),
    )
    setTimeout(forget, beginnings.keptMs).unref()
    return forget
  }

  /**
   * What came of the request that a run makes first, if it is the one that was made for it.
   * @returns null where none was, or it was not over in a moment
   * @throws what the request itself would throw
   */
  async take({ workflowId }: Call, request: FunctionCall): Promise<Tried | null> {
    const kept = this.#kept.get(workflowId)
    if (kept === undefined) return null
    this.#kept.delete(workflowId)
    const first = await kept
    return first !== undefined && isSame(first, request) ? first.answer : null
  }

  async #first(workflowId: string, payload: Payload, version: string): Promise<First | undefined> {
    const ref = refOf(workflowId)
    if (ref === undefined || isElsewhere(payload)) return undefined
    const [decoded] = await this.#codec.decode([payload], { type: 'workflow', namespace: '', workflowId })
    if (decoded?.data == null || decoded.data.length > ahead.charsMax) return undefined
    const run = defaultPayloadConverter.fromPayload<FlowRunInput>(decoded)
    // What it takes over from another run is not asked.
    if (run.reuse !== undefined) return undefined
    const call: Call = { ref, workflowId, ids: randomIds, hops: run.trigger?.hops ?? 0 }
    // Until something was found, also where that takes too much.
    this.#vain.set(version, true)
    const first = fromTheStart(run, (request) => this.#ask(call, request))
    if (first === undefined) return undefined
    this.#vain.delete(version)
    return { ...first, answer: this.#small(first.answer, version) }
  }

  /** A large answer is not kept for somebody who may never come. */
  #small(answer: Promise<Tried | null>, version: string): Promise<Tried | null> {
    const small = answer.then((tried) => {
      if (tried === null || JSON.stringify(tried.output).length <= ahead.answersCharsMax) return tried
      this.#vain.set(version, true)
      return null
    })
    // Nobody may ever ask what it has failed with.
    small.catch(() => {})
    return small
  }
}

/** Whether it is the same request, of the same run. */
function isSame(made: First, asked: FunctionCall): boolean {
  return (
    made.function === asked.function && JSON.stringify(made.arguments) === JSON.stringify(asked.arguments)
  )
}

/** Which version of which flow is started, as its search attributes say in the clear. */
function versionIn(fields: Fields | null | undefined): string | undefined {
  const [flow, version] = [fields?.['FlowId']?.data, fields?.['FlowVersion']?.data]
  return flow && version ? `${Buffer.from(flow)} ${Buffer.from(version)}` : undefined
}
