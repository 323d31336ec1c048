/** Reads jq's test files: program, input and outputs, one per line; or `%%FAIL` and a program. */

import type { Json } from '../../../flows-dsl/json.ts'

export interface Case {
  readonly program: string
  /** True if the program must not parse. */
  readonly refused: boolean
  readonly input: string
  readonly outputs: readonly string[]
}

export function readCases(text: string): Case[] {
  const blocks: string[][] = [[]]
  for (const line of text.split('\n')) {
    if (line.trim() === '') blocks.push([])
    else if (!line.startsWith('#')) blocks.at(-1)?.push(line)
  }
  return blocks.filter((block) => block.length > 0).map(caseOf)
}

function caseOf(lines: readonly string[]): Case {
  const [first = '', second = '', ...rest] = lines
  if (first.startsWith('%%FAIL')) return { program: second, refused: true, input: 'null', outputs: [] }
  return { program: first, refused: false, input: second, outputs: rest }
}

const NAMES = /"(?:[^"\\]|\\.)*"|-?\b(?:nan|NaN|Infinity)\b/g

/** JSON with jq's names of numbers. */
export function readValue(text: string): Json {
  const renamed = text.replace(/^\ufeff/, '').replace(NAMES, (found) => {
    if (found.startsWith('"')) return found
    if (/nan/i.test(found)) return '"\\u0000nan"'
    return found.startsWith('-') ? '-1e999' : '1e999'
  })
  return JSON.parse(renamed, (_key, value: Json) => (value === '\0nan' ? Number.NaN : value)) as Json
}
