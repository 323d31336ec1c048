/** Knows every fault a definition can have, how one is shown, and which name was probably meant. */

/** The table of faults: code → what all faults of this code share. Codes are part of the interface. */
export const FAULTS = {
  source_too_large: { title: 'The definition is too large' },
  compiled_too_large: { title: 'The compiled flow is too large' },
  nesting_too_deep: { title: 'The definition is nested too deeply' },
  yaml_syntax: { title: 'The definition is not valid YAML' },
  yaml_alias_refused: { title: 'Anchors and aliases are not allowed' },
  yaml_directive_refused: { title: 'YAML directives are not allowed' },
  yaml_multiple_documents: { title: 'There is more than one YAML document' },
  yaml_duplicate_key: { title: 'A key stands twice in one mapping' },
  yaml_key_not_string: { title: 'A key is not a string' },
  yaml_value_not_json: { title: 'A value has no JSON form' },
  wrong_type: { title: 'A value has the wrong type' },
  value_invalid: { title: 'A value is not one of those allowed' },
  missing_key: { title: 'A key is missing' },
  unknown_key: { title: 'A key is not known' },
  dsl_version_unsupported: { title: 'The version of the language is not supported' },
  unsupported_feature: { title: 'A part of the language is not supported in this release' },
  unsupported_task: { title: 'A kind of task is not supported in this release' },
  unsupported_call: { title: 'A kind of call is not supported in this release' },
  unsupported_catalog: { title: 'Functions of other catalogs are not loaded' },
  unknown_reference: { title: 'A name is not declared under `use`' },
  circular_reference: { title: 'What is declared under `use` leads back to itself' },
  secret_not_named: { title: 'A secret is not read by its name' },
  task_not_single: { title: 'An item of a task list must be one name with one task' },
  task_kind_missing: { title: 'A task does not say what it does' },
  task_kind_ambiguous: { title: 'A task says two things at once' },
  task_name_duplicate: { title: 'Two tasks of one list have the same name' },
  task_name_reserved: { title: 'A task has the name of a flow directive' },
  unknown_target: { title: 'A flow directive names no task of its list' },
  unknown_function: { title: 'A function is not known' },
  missing_argument: { title: 'An argument of a function is missing' },
  unknown_argument: { title: 'An argument is not known to the function' },
  expression_invalid: { title: 'An expression cannot be parsed' },
  expression_partial: { title: 'An expression must be the whole of a string' },
  pattern_refused: { title: 'A regular expression could take too long' },
  cron_invalid: { title: 'A cron expression is not valid' },
  duration_invalid: { title: 'A duration is not valid' },
} as const satisfies Record<string, { readonly title: string }>

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
  /** The offending line with a caret below the column. */
  readonly excerpt?: string
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
