/** Reopens granted approvals when an execution's data are changed by hand, since they were granted for other data. */

import { FlowError, REJECTED } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { type ApproveBody, AWAITED, addDecision } from '../tasks/approve.ts'
import { excludedBy, tooFew, verdictOf } from '../tasks/approvers.ts'
import type { Patch } from './data-patch.ts'
import { type MachineContext, taskContextOf } from './machine-context.ts'
import type { GrantedApproval, ReopenedApproval, TaskFrame } from './state.ts'
import { typeOf } from './task-index.ts'

/** A rejection could neither stop `finally` nor undo what was approved with the data as they were. */
const ENDING = 'The execution has completed with the data that were approved, and `finally` runs with them.'

/** A pending approval whose data were changed. */
interface PendingApproval {
  readonly task: TaskFrame
  readonly taskState: Json
  readonly details: JsonObject
}

export class Approvals {
  readonly #machine: MachineContext
  readonly #onRejected: (error: FlowError) => void

  /** @param onRejected is called when a reopened approval is rejected */
  constructor(machine: MachineContext, onRejected: (error: FlowError) => void) {
    this.#machine = machine
    this.#onRejected = onRejected
  }

  /** True if nothing may start until an approval is granted again. Compensation needs no approval. */
  get isReopened(): boolean {
    const { reopenedApprovals: askedAgain = [], compensation: undoing } = this.#machine.state
    return askedAgain.length > 0 && undoing === undefined
  }

  /** True if the tasks that run depend on a granted approval. Compensation and the handlers after it do not. */
  get #needsApproval(): boolean {
    const { grantedApprovals: granted = [], compensation: undoing } = this.#machine.state
    return granted.length > 0 && undoing === undefined
  }

  /**
   * Reopens all approvals after data of the execution changed.
   * @param who the subject that changed them and those behind it, who may not decide approvals with `fourEyes`
   * @returns why the change is refused, if too few approvers would remain or `finally` runs; then nothing is reopened
   */
  reopen({ by, people = [] }: Pick<Patch, 'by' | 'people'>): string | undefined {
    const { state } = this.#machine
    if (state.ending !== undefined && this.#needsApproval) return ENDING
    const authors = state.changedBy
    if (by !== undefined) state.changedBy = [...new Set([...(authors ?? []), by, ...people])]
    const reopened = [...(state.grantedApprovals ?? []), ...(state.reopenedApprovals ?? [])].map((one) =>
      this.#withoutAuthors(one),
    )
    const pending = this.#pending()
    const refused = [...reopened, ...pending].find((one) => typeof one === 'string')
    if (typeof refused === 'string') {
      if (authors === undefined) delete state.changedBy
      else state.changedBy = authors
      return refused
    }
    for (const one of pending) if (typeof one !== 'string') this.#askAgain(one)
    this.#reopenGranted(reopened.filter((one) => typeof one !== 'string'))
    return undefined
  }

  /** Decides a reopened approval. @returns why the decision is refused, if it is; undefined if none is open for the step */
  decide(step: string, message: JsonObject): { readonly refused?: string } | undefined {
    const { state, environment, evaluation } = this.#machine
    const approval = state.reopenedApprovals?.find(
      ({ pointer, iteration }) => `${pointer}#${iteration}` === step,
    )
    if (approval === undefined || !this.isReopened) return undefined
    const body = this.#bodyOf(approval)
    const voting = { ...approval, quorum: body.quorum }
    const decision = addDecision(body, voting, message, {
      excluded: this.#excludedFrom(body),
      nowMs: environment.nowMs(),
      validate: (schema, value, what) => evaluation.validate(schema, value, what),
    })
    if (typeof decision === 'string') return { refused: decision }
    const verdict = verdictOf(voting)
    if (verdict === true) this.#grant(approval)
    if (verdict === false) this.#reject(approval, decision.by)
    return {}
  }

  #bodyOf({ pointer }: GrantedApproval): ApproveBody {
    return this.#machine.nodes.at(pointer).body as ApproveBody
  }

  #excludedFrom({ fourEyes }: ApproveBody): ReadonlyMap<string, string> {
    const { info, changedBy = [] } = this.#machine.state
    const started = info.started_by === undefined ? {} : { startedBy: info.started_by }
    return fourEyes ? excludedBy({ ...started, changedBy }) : new Map()
  }

  /** The approval with its remaining approvers, or why these are too few. */
  #withoutAuthors(approval: GrantedApproval): GrantedApproval | string {
    const body = this.#bodyOf(approval)
    const excluded = this.#excludedFrom(body)
    const refused = tooFew(body.quorum, approval.approvers, excluded)
    const approvers = approval.approvers.filter((name) => !excluded.has(name))
    if (refused === undefined) return { ...approval, approvers }
    const { name } = this.#machine.nodes.at(approval.pointer)
    return `\`${name}\` would be asked again: ${refused}`
  }

  /** Shows the changed data to the approvers of a pending approval. */
  #askAgain({ task, taskState, details }: PendingApproval): void {
    const { frames, environment } = this.#machine
    task.taskState = taskState
    const frame = frames.child(task, AWAITED)
    if (frame?.is === 'effect' && frame.effect.do === 'await') Object.assign(frame.effect, { details })
    environment.approvalChanged?.(this.#machine.step(task), details)
  }

  /** Pending approvals with their new private state, or why one cannot go on. */
  #pending(): (PendingApproval | string)[] {
    const tasks = this.#machine.frames
      .tasks()
      .filter(({ taskState, held }) => taskState !== null && held === undefined)
    return tasks.flatMap((task) => {
      const node = this.#machine.nodes.at(task.pointer)
      try {
        const changed = typeOf(node).onDataChanged?.(
          node.body,
          task.taskState,
          taskContextOf(this.#machine, node, task),
        )
        return changed === undefined ? [] : { task, ...changed }
      } catch (error) {
        if (error instanceof FlowError) return `\`${node.name}\` could not be asked again: ${error.message}`
        throw error
      }
    })
  }

  #reopenGranted(granted: readonly GrantedApproval[]): void {
    if (granted.length === 0) return
    const { state, environment } = this.#machine
    for (const one of granted) {
      if (state.reopenedApprovals?.some((before) => before.path === one.path)) continue
      environment.record({ step: this.#machine.stepAt(one), phase: 'retried', at_ms: environment.nowMs() })
    }
    delete state.grantedApprovals
    state.reopenedApprovals = granted.map((one): ReopenedApproval => ({ ...one, decisions: [] }))
  }

  #grant(reopened: ReopenedApproval): void {
    const { state, environment } = this.#machine
    const { decisions, ...approval } = reopened
    state.reopenedApprovals = state.reopenedApprovals?.filter((one) => one !== reopened) ?? []
    state.grantedApprovals = [...(state.grantedApprovals ?? []), approval]
    const answer = { approved: true, decisions: decisions as unknown as Json }
    const what = { phase: 'completed', output: answer, answer, took: 'approved' } as const
    environment.record({ step: this.#machine.stepAt(reopened), at_ms: environment.nowMs(), ...what })
  }

  #reject(reopened: ReopenedApproval, by: string): void {
    const { state, environment } = this.#machine
    state.reopenedApprovals = []
    const detail = `The data were changed after the approval, and then the approval was rejected by ${by}.`
    const error = new FlowError(REJECTED, detail, reopened.pointer)
    const what = { phase: 'faulted', error: error.toObject() } as const
    environment.record({ step: this.#machine.stepAt(reopened), at_ms: environment.nowMs(), ...what })
    this.#onRejected(error)
  }
}
