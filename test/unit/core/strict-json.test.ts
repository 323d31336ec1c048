/** Parsing JSON: what would not read back as it was written is refused, with the member's pointer; all else is as JSON.parse reads it. */

import { expect, test } from 'vitest'
import { checkJson, parseJson } from '../../../src/core/json.ts'
import { Problem } from '../../../src/core/problem.ts'
import { checkFields } from '../../../src/features/collections/document.ts'
import { randomOf } from '../../support/random.ts'

const failure = (text: string): [string, string | undefined] => {
  try {
    return ['accepted', JSON.stringify(parseJson(text))]
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return [error.code, error.errors[0]?.pointer]
  }
}

test.each([
  ['9007199254740993', 'number_unsafe'],
  ['-9007199254740993', 'number_unsafe'],
  ['123456789012345678901', 'number_unsafe'],
  ['1e400', 'number_unsafe'],
  ['-1.5e999', 'number_unsafe'],
  [`${'9'.repeat(400)}.5`, 'number_unsafe'],
  ['9007199254740991', 'accepted'],
  ['10000000000000000', 'accepted'],
  ['1e21', 'accepted'],
  ['6.02e23', 'accepted'],
  ['1.7976931348623157e308', 'accepted'],
  ['1e-400', 'accepted'],
  ['0.1234567890123456789', 'accepted'],
])('number: %s: %s', (literal, outcome) => {
  for (const [text, pointer] of [
    [`{"a":${literal}}`, '/a'],
    [`{"o" : {"b/c":[1,"x:\\"", ${literal} ]}}`, '/o/b~1c/2'],
  ] as const) {
    const [code, found] = failure(text)
    expect(code).toBe(outcome)
    if (code !== 'accepted') expect(found).toBe(pointer)
  }
})

test('number: what is accepted and written again: accepted again', () => {
  const pick = randomOf(1)
  const random = () => pick(2 ** 32) / 2 ** 32
  for (let round = 0; round < 2_000; round++) {
    const number = (random() - 0.5) * 10 ** Math.floor(random() * 40)
    const written = JSON.stringify([Math.round(number), number])
    expect(failure(written)).toEqual(['accepted', JSON.stringify(JSON.parse(written))])
  }
})

test.each([
  ['{"a":1,"a":1}', '/a'],
  ['{"a":1,"\\u0061":2}', '/a'],
  ['{"o":[{"x":{"b":1},"y":"\\\\","x" :2}]}', '/o/0/x'],
  ['{"1":1,"1":2}', '/1'],
  ['{"":1,"":2}', '/'],
])('name: twice in %s: body_invalid with its pointer', (text, pointer) => {
  expect(failure(text)).toEqual(['body_invalid', pointer])
})

const NAMES = ['a', 'b', ':', '"', '\\', '\\"', '{', 'é', '😀', '', '1']

test('JSON: random values and random repetitions: repeated names alone are refused', () => {
  const pick = randomOf(2)
  /** Writes a value; counts the names that repeat. */
  let repeated = 0
  const write = (depth: number): string => {
    const kind = pick(depth > 3 ? 3 : 5)
    if (kind < 2) return JSON.stringify(NAMES[pick(NAMES.length)])
    if (kind === 2) return String(pick(1_000) - 500)
    const members = Array.from({ length: pick(4) }, () => NAMES[pick(NAMES.length)] ?? '')
    if (kind === 3) return `[ ${members.map(() => write(depth + 1)).join(' , ')} ]`
    repeated += members.length - new Set(members).size
    return `{ ${members.map((name) => `${JSON.stringify(name)} : ${write(depth + 1)}`).join(' , ')} }`
  }
  const seen = new Set<string>()
  for (let round = 0; round < 3_000; round++) {
    repeated = 0
    const text = write(0)
    const [code, value] = failure(text)
    seen.add(code)
    expect([text, code]).toEqual([text, repeated > 0 ? 'body_invalid' : 'accepted'])
    if (repeated === 0) expect(value).toBe(JSON.stringify(JSON.parse(text)))
  }
  expect([...seen].sort()).toEqual(['accepted', 'body_invalid'])
})

test('name of a prototype: at any depth: refused by name', () => {
  expect(() => parseJson('{"a":[{"__proto__":{}}]}')).toThrow('The JSON has a member __proto__')
  expect(() => parseJson('{"\\u005f_proto__":{}}')).toThrow('The JSON has a member __proto__')
  expect(() => parseJson('{"a":{"constructor":{"prototype":{}}}}')).toThrow(
    'The JSON has a member constructor.prototype',
  )
  expect(parseJson('{"constructor":{"name":"x"},"prototype":1}')).toEqual({
    constructor: { name: 'x' },
    prototype: 1,
  })
})

test('JSON: 100,000 levels: parsed without recursion', () => {
  expect(failure(`${'['.repeat(100_000)}1e400${']'.repeat(100_000)}`)[0]).toBe('number_unsafe')
})

test.each([Infinity, -Infinity, NaN])(
  'computed number %d in inputs and in documents: number_unsafe, it would be stored as null',
  (number) => {
    const value = { a: [{ b: number }] }
    const problem = expect.objectContaining({ code: 'number_unsafe' })
    expect(() => checkJson('input', value, 1_000)).toThrow(problem)
    expect(() => checkFields(value)).toThrow(problem)
    expect(() => checkJson('input', value, 1_000)).toThrow('input has a member that is a number too large')
    expect(() => checkJson('input', number, 1_000)).toThrow('input is a number too large to be kept.')
    expect(() => checkJson('input', { a: [{ b: Number.MAX_VALUE }] }, 1_000)).not.toThrow()
  },
)
