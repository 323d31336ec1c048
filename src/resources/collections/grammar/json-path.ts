/** `json_path_eq`: a path of RFC 9535's simplest steps below a field, and what it should be equal to. */

import { LIMITS } from '../../../core/limits.ts'
import type { Step, Test } from './filter.ts'
import { checkText, pieceOf, readLiteral, refusal, type Source } from './text.ts'

const STEPS: readonly [RegExp, (text: string) => Step][] = [
  [/\[\*\]/y, () => 'every'],
  [/\[(0|[1-9][0-9]{0,8})\]/y, (text) => ({ index: Number(text) })],
  [/\['((?:[^'\\]|\\.)*)'\]/suy, (text) => ({ member: text.replaceAll(/\\(.)/gsu, '$1') })],
  [/\.([\p{L}\p{N}_$-]+)/uy, (text) => ({ member: text })],
]

/** `(<path>,<literal>)`; the parentheses may be left out, and the comma be a colon. */
export function readPathTest(text: string, source: Source): Test {
  const inside = /^\((.*)\)$/su.exec(text)?.[1] ?? text
  const { steps, end } = readSteps(inside, source)
  if (inside[end] !== ',' && inside[end] !== ':') {
    const wanted = "a step (`.name`, `[0]`, `[*]`, `['name']`) or a comma"
    throw refusal(
      source,
      `At ${end} of the path there should be ${wanted}.`,
      `${source.name}=json_path_eq.($.a.b,value)`,
    )
  }
  return { op: 'at', steps, value: readLiteral(pieceOf(inside.slice(end + 1)), source) }
}

/** The steps at the beginning of a text, and where they end. `$` and the first dot may be left out. */
export function readSteps(text: string, source: Source): { steps: Step[]; end: number } {
  const steps: Step[] = []
  const bare = /^[\p{L}_]/u.test(text)
  const rest = bare ? `.${text}` : text
  let at = rest.startsWith('$') ? 1 : 0
  for (;;) {
    const step = stepAt(rest, at)
    if (step === undefined) return { steps, end: bare ? at - 1 : at }
    if (steps.length >= LIMITS.pathDepthMax)
      throw refusal(source, `A path has at most ${LIMITS.pathDepthMax} steps.`)
    if (typeof step.step === 'object' && 'member' in step.step) checkText(step.step.member, source)
    steps.push(step.step)
    at = step.end
  }
}

function stepAt(text: string, at: number): { step: Step; end: number } | undefined {
  for (const [pattern, make] of STEPS) {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found !== null) return { step: make(found[1] ?? ''), end: at + found[0].length }
  }
  return undefined
}
