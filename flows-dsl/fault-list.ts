/** Knows the faults of one definition: each is noted once, with its place. */

import { didYouMean, type Fault, type FaultCode } from './faults.ts'
import type { Place } from './located.ts'

/**
 * Faults beyond this many are not noted: no one reads them, and a hostile definition could ask for millions.
 */
const FAULTS_MAX = 100

export class FaultList {
  readonly faults: Fault[] = []
  readonly #noted = new Set<string>()

  /** Notes a fault, once, however often its place is compiled. What is already refused gets no second one. */
  fault(code: FaultCode, at: Place, message: string, hint?: string): undefined {
    if (this.faults.length >= FAULTS_MAX || ('kind' in at && at.kind === 'refused')) return
    const { line, column, pointer } = at
    const key = `${code} ${line}:${column} ${message}`
    if (this.#noted.has(key)) return
    this.#noted.add(key)
    this.faults.push({ code, message, line, column, pointer, ...(hint !== undefined && { hint }) })
  }

  /** A fault about a name that is not among those known; the hint is the nearest, or all if they are few. */
  unknown(code: FaultCode, at: Place, message: string, name: string, known: readonly string[]): undefined {
    if (this.faults.length >= FAULTS_MAX) return
    const all = known.length > 0 && known.length <= 20 ? `Known here: ${known.join(', ')}.` : undefined
    return this.fault(code, at, message, didYouMean(name, known) ?? all)
  }
}
