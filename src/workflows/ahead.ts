/** Knows answers to what a run has not asked yet: whoever made a request beside it went on to what follows from the answer. */

import type { FlowIR } from '../../flows-dsl/ir.ts'
import type { Whereabouts } from '../../flows-dsl/machine/course.ts'
import type { CallRequest } from '../../flows-dsl/run.ts'
import type { Foreseen, Tried, Where } from '../activities/contract.ts'
import { LIMITS } from '../core/limits.ts'
import { nowMs } from './moments.ts'

export class Ahead {
  readonly #ir: FlowIR
  #flow: string | undefined
  /** In the order in which they will be asked for. */
  #kept: readonly Foreseen[] = []
  /** When it was asked for last: nothing of it has happened before. */
  #sinceMs = 0
  /** Steps after which nothing was foreseen: as a rule, nothing will be. */
  readonly #last = new Set<string>()
  /** The run was found to carry too much: to find that out costs as much each time. */
  #isLarge = false

  constructor(ir: FlowIR) {
    this.#ir = ir
  }

  /** What it takes to foresee what follows a request; undefined where it is too much, or in vain. */
  where({ step, beside }: CallRequest, whereabouts: () => Whereabouts | undefined): Where | undefined {
    this.#sinceMs = nowMs()
    if (beside || this.#isLarge || this.#last.has(step.pointer)) return undefined
    const found = whereabouts()
    if (found === undefined) return undefined
    this.#flow ??= JSON.stringify(this.#ir)
    const stands = JSON.stringify(found)
    this.#isLarge = this.#flow.length + stands.length > LIMITS.briefCalls.ahead.charsMax
    return this.#isLarge ? undefined : { flow: this.#flow, stands }
  }

  /** What came with the answer to a request. */
  keep({ step }: CallRequest, { ahead = [] }: Tried): void {
    if (ahead.length === 0) this.#last.add(step.pointer)
    this.#kept = ahead
  }

  /** The answer to this request, if it is the one that was foreseen; else nothing of what was is true any more. */
  take({ step, arguments: given }: CallRequest): Foreseen | undefined {
    const [next, ...rest] = this.#kept
    if (next === undefined) return undefined
    const isIt = next.place === step.place && JSON.stringify(next.arguments) === JSON.stringify(given)
    this.#kept = isIt ? rest : []
    return isIt ? next : undefined
  }

  /** The run asks for something else, or stands still. */
  drop(): void {
    this.#kept = []
  }

  /** What is known already has not happened yet: each step has the time that it took. */
  nowMs(): number {
    if (this.#kept.length === 0) return nowMs()
    const leftMs = this.#kept.reduce((sum, { took_ms }) => sum + took_ms, 0)
    return Math.max(this.#sinceMs, nowMs() - leftMs)
  }
}
