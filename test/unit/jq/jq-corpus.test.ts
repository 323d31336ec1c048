/** A corpus of programs yields the same answers here as in jq. */

import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/json.ts'
import { type Answer, answerHere, openOracle } from './jq-oracle.ts'

interface Case {
  readonly program: string
  readonly input: Json
}

function corpus(): Case[] {
  const file = new URL('jq-corpus.txt', import.meta.url)
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [program = '', input = 'null'] = line.split('\t')
      return { program, input: JSON.parse(input) as Json }
    })
}

let ask: (program: string, input: Json) => Answer

beforeAll(async () => {
  ask = await openOracle()
})

/** Programs whose answers differ on purpose, and why. */
const DEVIATIONS: Readonly<Record<string, string>> = {
  '1e1000': 'numbers are doubles: what is too large is the largest',
  '-1e1000': 'numbers are doubles: what is too large is the largest',
  '[1e1000]|tojson': 'numbers are doubles; jq keeps literals as they are written',
  '[.[]|tojson]': 'numbers are doubles; jq keeps literals as they are written',
  '1000000000000000000000': 'an integer literal that a double may not hold is refused',
  '[9007199254740993]|.[0]+0': 'an integer literal that a double may not hold is refused',
  '. as {a:$x,b:$x}|$x': 'a name that stands twice has the last value, in objects as in arrays',
  '[.[]|toarray]': 'this build of jq has no toarray',
  'path(reduce ("a","b") as $k (.;.[$k]))': 'the path is where the value stands; jq gives another',
  'path(foreach ("a","b") as $k (.;.[$k]))': 'the path is where the value stands; jq gives another',
  'path(last(.a,.b))': 'the path is where the value stands; jq gives another',
  '[match("";"g").offset]': 'jq finds the end twice behind a letter of two bytes',
  'try test("(") catch .': 'a literal that is no regular expression is a fault of the definition',
  'try test(1) catch .': 'says what the value is',
  'strftime("%I:%M:%S %p %k|%l|%D|%F|%T|%R")': 'this build of jq has no %k and %l',
  'strftime("%Z")': 'this build of jq has no %Z',
  'strptime("%I %p")|.[3]': '12 AM is midnight; this build of jq says noon',
  '{"a":[1,2,{"b":[3]}]}|[leaf_paths]': 'jq 1.8 has no leaf_paths any more',
}

function textOf(answer: Answer): string {
  return JSON.stringify(answer, (_key, value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort())
      : value,
  )
}

test('corpus: every program: yields the answers of jq, except for the listed differences', () => {
  const cases = corpus()
  const line = ({ program, input }: Case, answer: Answer) =>
    `${program} ⇐ ${JSON.stringify(input)} ⇒ ${textOf(answer)}`
  const same = cases.filter(({ program }) => !Object.hasOwn(DEVIATIONS, program))
  expect(same.length).toBeGreaterThan(500)
  expect(same.map((one) => line(one, answerHere(one.program, one.input)))).toEqual(
    same.map((one) => line(one, ask(one.program, one.input))),
  )
})

test('listed difference: is one', () => {
  const cases = corpus()
  const differing = Object.keys(DEVIATIONS).filter((program) =>
    cases.some(
      (one) =>
        one.program === program && textOf(answerHere(program, one.input)) !== textOf(ask(program, one.input)),
    ),
  )
  expect(differing).toEqual(Object.keys(DEVIATIONS))
})
