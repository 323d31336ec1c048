/** Diagnostics of a definition: collecting, formatting, and suggesting the name that was meant. */

import {
  type FaultKind,
  NAME_FAULTS,
  SHAPE_FAULTS,
  SOURCE_FAULTS,
  TASK_FAULTS,
  WARNINGS,
} from './faults/catalogue.ts'
import type { Place } from './located.ts'

/** The table of faults: code → what all faults of this code share. Codes are part of the interface. */
export const FAULTS = {
  ...SOURCE_FAULTS,
  ...SHAPE_FAULTS,
  ...TASK_FAULTS,
  ...NAME_FAULTS,
  ...WARNINGS,
} as const satisfies Record<string, FaultKind>

export type FaultCode = keyof typeof FAULTS

/**
 * One thing that is wrong. `line` and `column` (in UTF-16 units) count from 1; `pointer` is a JSON pointer.
 */
export interface Fault {
  readonly code: FaultCode
  readonly message: string
  readonly line: number
  readonly column: number
  readonly pointer: string
  readonly hint?: string
  /** Path of the page about the code, on the server of the API. */
  readonly docs?: string
  /** The offending line with a caret below the column. */
  readonly excerpt?: string
}

/** Faults as they are told: in the order of their places, each with its page and its line. */
export function told(faults: readonly Fault[], source: string): Fault[] {
  const lines = source.split('\n')
  const shown = faults.map((fault) => {
    const excerpt = excerptOf(lines[fault.line - 1] ?? '', fault.line, fault.column)
    return { ...fault, docs: docsOf(fault.code), excerpt }
  })
  return shown.sort((a, b) => a.line - b.line || a.column - b.column)
}

/** Where the page about a code is. */
function docsOf(code: string): string {
  return `/docs/flows/faults/${code}`
}

const BEFORE_MAX = 60
const WIDTH_MAX = 120

/** The distance costs the product of the lengths, so a hostile definition gets no hints. */
const NAME_MAX = 100
const CANDIDATES_MAX = 300

/** The line with a caret below its column; a long line is cut to a window around it. */
export function excerptOf(text: string, line: number, column: number): string {
  const start = Math.max(0, column - 1 - BEFORE_MAX)
  const shown = text.slice(start, start + WIDTH_MAX).trimEnd()
  const before = text.slice(start, column - 1).replace(/[^\t]/g, ' ')
  const number = String(line)
  return `${number} | ${shown}\n${' '.repeat(number.length)} | ${before}^`
}

/** `Did you mean x?` for the known name nearest to one that is unknown, if one is near. */
export function didYouMean(name: string, known: readonly string[], prefix = ''): string | undefined {
  const near = nearest(name, known)
  return near === undefined ? undefined : `Did you mean ${prefix}${near}?`
}

/** The known name with the smallest edit distance, at most a third of its length; the first of equals. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  if (name.length > NAME_MAX) return undefined
  for (const candidate of known.slice(0, CANDIDATES_MAX)) {
    if (Math.abs(candidate.length - name.length) > candidate.length / 3 + 1) continue
    const distance = distanceOf(name.toLowerCase(), candidate.toLowerCase())
    if (distance > Math.max(1, Math.floor(candidate.length / 3)) || distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** Edits (insert, delete, replace, swap of neighbours) that lead from one text to the other. */
function distanceOf(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const edits = [replaced, (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1]
      row.push(Math.min(...edits, swapped ? (before[j - 2] ?? 0) + 1 : replaced))
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}

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
