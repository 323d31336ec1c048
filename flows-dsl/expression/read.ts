/** Knows how JSON in a text is read. */

import type { Json } from '../json.ts'
import { type Budget, checkSize, measure, spend } from './budget.ts'
import { type Failure, failure } from './failure.ts'

const TEXT_OR_NAME = /"(?:[^"\\]|\\.)*"|-?\b(?:nan|NaN|Infinity)\b/g
/** What puts the names of numbers in recurses. */
const NESTING_MAX = 256
const BLANK = /^[ \t\r\n]*$/

/** `fromjson`. @throws Failure where it is no JSON; FlowError (expression) where it is too large or too deep */
export function readJson(text: string, budget: Budget): Json {
  checkSize(budget, text.length)
  spend(budget, 1 + (text.length >> 2))
  const trimmed = text.trim()
  if (/^-?nan$/i.test(trimmed)) return Number.NaN
  const value = parse(text)
  measure(value, budget)
  return value
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    if (BLANK.test(text)) throw wrong('Expected JSON value', text)
  }
  try {
    return parseNamed(text)
  } catch {
    throw wrong(faultOf(text), text)
  }
}

/** JSON has no names for numbers; jq reads them. */
function parseNamed(text: string): Json {
  if (nestingOf(text) > NESTING_MAX) throw new SyntaxError('nested too deeply for names of numbers')
  // Longer than any such run of the text, so that it is not in it.
  const runs = text.match(/-+/g) ?? []
  const mark = `nan${'-'.repeat(runs.reduce((most, run) => Math.max(most, run.length), 0) + 1)}`
  const renamed = text.replace(TEXT_OR_NAME, (found) => {
    if (found.startsWith('"')) return found
    if (/nan/i.test(found)) return `"${mark}"`
    return found.startsWith('-') ? '-1e999' : '1e999'
  })
  return JSON.parse(renamed, (_key, value: Json) => (value === mark ? Number.NaN : value)) as Json
}

/** In jq's words where that is simple. */
function faultOf(text: string): string {
  const quote = text.indexOf("'")
  if (quote >= 0) {
    return `Invalid string literal; expected ", but got ' at line 1, column ${text.indexOf("'", quote + 1) + 2}`
  }
  return `Invalid numeric literal at EOF at line 1, column ${text.length}`
}

function wrong(what: string, text: string): Failure {
  return failure(`${what} (while parsing '%s')`, text)
}

/** At most how deep the brackets of a text are nested; those in strings count too. */
function nestingOf(text: string): number {
  let [open, most] = [0, 0]
  for (const bracket of text.replace(/[^[\]{}]+/g, '')) {
    open += bracket === '[' || bracket === '{' ? 1 : -1
    most = Math.max(most, open)
  }
  return most
}
