/** Collects and formats the diagnostics of a definition, and suggests the name that was meant. */

import type { Location } from '../compile/source-nodes.ts'
import type { DIAGNOSTICS } from './catalogue.ts'

export type DiagnosticCode = keyof typeof DIAGNOSTICS

export interface Diagnostic extends Location {
  readonly code: DiagnosticCode
  readonly message: string
  readonly hint?: string
  /** Path of the page about the code, on the server of the API. */
  readonly docs?: string
  /** The source line with a caret below the column. */
  readonly excerpt?: string
}

/** More diagnostics than this are dropped: a hostile definition could cause millions. */
const DIAGNOSTICS_MAX = 100

/** Collects the diagnostics of one definition, without duplicates. */
export class DiagnosticList {
  readonly diagnostics: Diagnostic[] = []
  readonly #reported = new Set<string>()

  /** Records a diagnostic, once per location however often that is compiled, and none for rejected nodes. */
  report(code: DiagnosticCode, at: Location, message: string, hint?: string): undefined {
    if (this.diagnostics.length >= DIAGNOSTICS_MAX || ('kind' in at && at.kind === 'refused')) return
    const { line, column, pointer } = at
    const key = `${code} ${line}:${column} ${message}`
    if (this.#reported.has(key)) return
    this.#reported.add(key)
    this.diagnostics.push({ code, message, line, column, pointer, ...(hint !== undefined && { hint }) })
  }

  /** Records that a name is not known; the hint is the remedy, the nearest known name, or all of them if they are few. */
  reportUnknown(
    code: DiagnosticCode,
    at: Location,
    message: string,
    name: string,
    known: readonly string[],
    remedy?: string,
  ): undefined {
    if (this.diagnostics.length >= DIAGNOSTICS_MAX) return
    const all = known.length > 0 && known.length <= 20 ? `Known here: ${known.join(', ')}.` : undefined
    return this.report(code, at, message, remedy ?? didYouMean(name, known) ?? all)
  }
}

/** Diagnostics in source order, each with its documentation page and source line. */
export function formatDiagnostics(diagnostics: readonly Diagnostic[], source: string): Diagnostic[] {
  const lines = source.split('\n')
  const formatted = diagnostics.map((one) => ({
    ...one,
    docs: `/docs/flows/diagnostics/${one.code}`,
    excerpt: excerptOf(lines[one.line - 1] ?? '', one.line, one.column),
  }))
  return formatted.sort((a, b) => a.line - b.line || a.column - b.column)
}

const BEFORE_MAX = 60
const WIDTH_MAX = 120

/** The edit distance costs the product of the lengths, so long names and lists get no suggestion. */
const NAME_MAX = 100
const CANDIDATES_MAX = 300

/** A source line with a caret below its column; a long line is cut to a window around the column. */
export function excerptOf(text: string, line: number, column: number): string {
  const start = Math.max(0, column - 1 - BEFORE_MAX)
  const visible = text.slice(start, start + WIDTH_MAX).trimEnd()
  const before = text.slice(start, column - 1).replace(/[^\t]/g, ' ')
  const number = String(line)
  return `${number} | ${visible}\n${' '.repeat(number.length)} | ${before}^`
}

/** `Did you mean x?` for the known name nearest to an unknown one, if one is near. */
export function didYouMean(name: string, known: readonly string[], prefix = ''): string | undefined {
  const near = nearest(name, known)
  return near === undefined ? undefined : `Did you mean ${prefix}${near}?`
}

/** The known name with the smallest edit distance, at most a third of its length; the first if several are as near. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  if (name.length > NAME_MAX) return undefined
  for (const candidate of known.slice(0, CANDIDATES_MAX)) {
    if (Math.abs(candidate.length - name.length) > candidate.length / 3 + 1) continue
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (distance > Math.max(1, Math.floor(candidate.length / 3)) || distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** Damerau-Levenshtein distance (optimal string alignment): insert, delete, replace, swap of neighbours. */
function editDistance(a: string, b: string): number {
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
