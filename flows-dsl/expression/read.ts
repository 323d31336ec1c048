/** Knows how JSON in a text is read. */

import type { Json } from '../json.ts'
import { type Budget, charge, measure } from './budget.ts'
import { failure } from './failure.ts'

const TEXT_OR_NAME = /"(?:[^"\\]|\\.)*"|-?\b(?:nan|NaN|Infinity)\b/g
const BLANK = /^[ \t\r\n]*$/

/** `fromjson`. @throws Failure where it is no JSON; FlowError (expression) where it is too large or too deep */
export function readJson(text: string, budget: Budget): Json {
  charge(budget, text.length)
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
    // JSON has no such numbers; jq reads them, and within a value they end as these anyway.
    return JSON.parse(text.replace(TEXT_OR_NAME, named)) as Json
  } catch {
    throw wrong(`Invalid JSON at EOF at line 1, column ${text.length}`, text)
  }
}

function named(found: string): string {
  if (found.startsWith('"')) return found
  if (/nan/i.test(found)) return 'null'
  return found.startsWith('-') ? '-1e999' : '1e999'
}

function wrong(what: string, text: string): Error {
  return failure('%s (while parsing %q)'.replace('%s', what).replace('%q', () => `'${text}'`))
}
