/** Asks for approvals again when data of an execution are changed by hand, since they were given for other data. */

import { FlowError, REJECTED } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { type ApproveBody, decisionOf, refusalOf, verdictOf } from '../tasks/approve.ts'
import { type Desk, runningOf } from './machine-context.ts'
import type { Agreed, AskedAgain, TaskFrame } from './state.ts'
import { typeOf } from './task-index.ts'

export class Approvals {
  readonly #desk: Desk
  readonly #rejected: (error: FlowError) => void

  /** @param rejected hears that an approval was asked for again and rejected */
  constructor(desk: Desk, rejected: (error: FlowError) => void) {
    this.#desk = desk
    this.#rejected = rejected
  }

  /** Whether nothing may begin until an approval is given again. A run that undoes asks for none. */
  get isAskedAgain(): boolean {
    const { askedAgain = [], undoing } = this.#desk.state
    return askedAgain.length > 0 && undoing === undefined
  }

  /**
   * Data of the run have been changed: decisions on the data before do not count any more.
   * @param by the subject that has changed them, and so decides no approval that wants four eyes
   * @returns why the change is refused, if it is; nothing is asked again then
   */
  changed(by: string | undefined): string | undefined {
    const { state } = this.#desk
    const authors = state.changedBy
    if (by !== undefined && !authors?.includes(by)) state.changedBy = [...(authors ?? []), by]
    const given = [...(state.agreed ?? []), ...(state.askedAgain ?? [])].map((one) => this.#without(one, by))
    const waiting = this.#waiting()
    const refused = [...given, ...waiting].find((one) => typeof one === 'string')
    if (typeof refused === 'string') {
      if (authors === undefined) delete state.changedBy
      else state.changedBy = authors
      return refused
    }
    for (const one of waiting) if (typeof one !== 'string') one.task.own = one.own
    this.#askAgain(given.filter((one) => typeof one !== 'string'))
    return undefined
  }

  /** Somebody decides an approval that is asked for again. @returns why it is refused; undefined where it is none */
  decide(step: string, given: JsonObject): { readonly refused?: string } | undefined {
    const { state, surroundings } = this.#desk
    const asked = state.askedAgain?.find(({ pointer, iteration }) => `${pointer}#${iteration}` === step)
    if (asked === undefined || !this.isAskedAgain) return undefined
    const decision = decisionOf(given, surroundings.nowMs())
    if (typeof decision === 'string') return { refused: decision }
    const approval = { ...asked, quorum: this.#bodyOf(asked).quorum }
    const refused = refusalOf(approval, decision.by)
    if (refused !== undefined) return { refused }
    asked.decisions.push(decision)
    const verdict = verdictOf(approval)
    if (verdict === true) this.#give(asked)
    if (verdict === false) this.#reject(asked, decision.by)
    return {}
  }

  #bodyOf({ pointer }: Agreed): ApproveBody {
    return this.#desk.nodes.at(pointer).body as ApproveBody
  }

  /** The approval with those who may decide it now, or why these cannot be enough. */
  #without(agreed: Agreed, by: string | undefined): Agreed | string {
    const { quorum, fourEyes } = this.#bodyOf(agreed)
    const approvers = agreed.approvers.filter((name) => !fourEyes || name !== by)
    if (approvers.length >= quorum) return { ...agreed, approvers }
    const { name } = this.#desk.nodes.at(agreed.pointer)
    return `\`${name}\` would be asked again: ${quorum} must approve, and only ${approvers.length} may.`
  }

  /** Approvals that wait, as they are asked from now on. */
  #waiting(): ({ readonly task: TaskFrame; readonly own: Json } | string)[] {
    const tasks = this.#desk.frames.tasks().filter(({ own, held }) => own !== null && held === undefined)
    return tasks.flatMap((task) => {
      const node = this.#desk.nodes.at(task.pointer)
      try {
        const own = typeOf(node).changed?.(node.body, task.own, runningOf(this.#desk, node, task))
        return own === undefined ? [] : { task, own }
      } catch (error) {
        if (error instanceof FlowError) return `\`${node.name}\` could not be asked again: ${error.message}`
        throw error
      }
    })
  }

  #askAgain(given: readonly Agreed[]): void {
    if (given.length === 0) return
    const { state, surroundings } = this.#desk
    for (const one of given) {
      if (state.askedAgain?.some((before) => before.place === one.place)) continue
      surroundings.record({ step: this.#desk.stepAt(one), phase: 'retried', at_ms: surroundings.nowMs() })
    }
    delete state.agreed
    state.askedAgain = given.map((one): AskedAgain => ({ ...one, decisions: [] }))
  }

  #give(asked: AskedAgain): void {
    const { state, surroundings } = this.#desk
    const { decisions, ...agreed } = asked
    state.askedAgain = state.askedAgain?.filter((one) => one !== asked) ?? []
    state.agreed = [...(state.agreed ?? []), agreed]
    const answer = { approved: true, decisions: decisions as unknown as Json }
    const what = { phase: 'completed', output: answer, answer, took: 'approved' } as const
    surroundings.record({ step: this.#desk.stepAt(asked), at_ms: surroundings.nowMs(), ...what })
  }

  #reject(asked: AskedAgain, by: string): void {
    const { state, surroundings } = this.#desk
    state.askedAgain = []
    const detail = `Its data were changed after it had been approved, and then it was rejected by ${by}.`
    const error = new FlowError(REJECTED, detail, asked.pointer)
    const what = { phase: 'faulted', error: error.toObject() } as const
    surroundings.record({ step: this.#desk.stepAt(asked), at_ms: surroundings.nowMs(), ...what })
    this.#rejected(error)
  }
}
