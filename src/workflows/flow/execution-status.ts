/** Shows operators in the Temporal UI what stops an execution: the search attribute `RunStatus` and the current details. */

import { defineSearchAttributeKey } from '@temporalio/common'
import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow'
import type { ErrorObject } from '../../../flows-dsl/errors.ts'
import type { Driver } from '../../../flows-dsl/machine/driver.ts'
import type { RunStatus } from '../../core/work.ts'
import { type CurrentDetails, errorSummary, inlineCode } from './current-details.ts'
import type { ExecutionGate } from './execution-gate.ts'

const RUN_STATUS = defineSearchAttributeKey('RunStatus', 'KEYWORD')

export interface ExecutionStatusSources {
  readonly gate: ExecutionGate
  readonly details: CurrentDetails
  readonly executionId: string
}

export class ExecutionStatusDisplay {
  readonly #sources: ExecutionStatusSources
  #driver: Driver | undefined

  constructor(sources: ExecutionStatusSources) {
    this.#sources = sources
    sources.gate.onChanged = () => this.show()
  }

  /** Shows what the driver waits for from now on. */
  follow(driver: Driver): void {
    this.#driver = driver
  }

  /**
   * Updates both. The attribute is written only if it changes, and `running` only when the execution does something again:
   * an execution that never stops writes none, and one that waits in a loop writes one.
   */
  show(): void {
    if (this.#driver === undefined) return
    const status = this.#status(this.#driver)
    this.#sources.details.setNotice(this.#noticeOf(status, this.#driver.status.held))
    upsert(status)
  }

  /** Shows the final status if another one was shown before. */
  ended(status: 'completed' | 'faulted' | 'cancelled'): void {
    if (shown() !== undefined) upsert(status)
  }

  #status({ status }: Driver): RunStatus {
    const { reason } = this.#sources.gate
    if (reason === 'paused' || reason === 'suspended' || reason === 'queued') return reason
    if (status.isHeld) return 'held'
    if (reason === 'approval_reopened' || status.waitsFor.includes('approval')) return 'waiting_for_approval'
    return status.waitsFor.includes('events') ? 'waiting_for_event' : 'running'
  }

  /** Lines of Markdown with names of the definition alone, since they are not encrypted. */
  #noticeOf(status: RunStatus, held: Readonly<Record<string, ErrorObject>>): string | undefined {
    const { executionId } = this.#sources
    const command = (verb: string) => inlineCode(`tenon flow ${verb} ${executionId}`)
    switch (status) {
      case 'paused':
        return `Paused. Resume it with ${command('resume')}.`
      case 'suspended':
        return 'Its workspace is suspended; the execution continues when the workspace is resumed.'
      case 'queued':
        return 'Queued: it continues when another execution of the flow releases its concurrency slot.'
      case 'held':
        return [
          'Held: a step failed and waits for a decision.\n',
          ...Object.entries(held).map(([step, error]) => `- ${inlineCode(step)}: ${errorSummary(error)}`),
          `\nRetry it with ${command('retry')}, or send ${inlineCode('skip-step')} or ${inlineCode('patch-data')} through the API.`,
        ].join('\n')
      case 'waiting_for_approval':
        return `Waits for an approval. Decide it with ${inlineCode(`tenon approval approve ${executionId}`)} or ${inlineCode('reject')}.`
      case 'waiting_for_event':
        return `Waits for an event. Send one with ${inlineCode(`POST …/executions/${executionId}/signal`)}.`
      case 'running':
      case 'completed':
      case 'faulted':
      case 'cancelled':
        return undefined
    }
  }
}

const shown = () => workflowInfo().typedSearchAttributes.get(RUN_STATUS)

function upsert(status: RunStatus): void {
  if (status !== (shown() ?? 'running')) upsertSearchAttributes([{ key: RUN_STATUS, value: status }])
}
