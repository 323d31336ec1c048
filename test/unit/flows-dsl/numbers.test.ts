// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Integers that a double cannot hold: they are refused wherever their text enters a flow, and never altered. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { losesDigits, parseNumbersExactly } from '../../../flows-dsl/json.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { contentOf } from '../../../src/activities/http/response-content.ts'
import type { Inbound } from '../../../src/infra/http-client/egress.ts'
import { CATALOGUE, compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const UNSAFE = ['7615917337495251231', '-7615917337495251231', '9007199254740993', `1${'0'.repeat(30)}`]
const SAFE = [
  '9007199254740991',
  // Beyond 2^53, and read back with the same digits.
  '9007199254740992',
  '-9007199254740991',
  '0000000000000000012',
  '7.6e18',
  '1e20',
  '0.12345678901234567',
]

const sources = (number: string) => [
  `set: { id: ${number} }`,
  `set: { id: '\${ [${number}] }' }`,
  `if: .id == ${number}, set: {}`,
]
const faultsOf = (task: string) =>
  compile(`${HEAD}do: [{ a: { ${task} } }]`, { catalogue: CATALOGUE }).diagnostics.map(({ code }) => code)
const answer = (number: string) =>
  contentOf({
    body: Buffer.from(`{"a":[{"id":${number}}]}`),
    headers: { 'content-type': 'application/json' },
  } as unknown as Inbound)

test.each(UNSAFE)('%s: every entry point refuses it and says to use text', (number) => {
  expect(losesDigits(number)).toBe(true)
  for (const source of sources(number)) expect(faultsOf(source)).toHaveLength(1)
  expect(faultsOf(`set: { id: ${number} }`)).toEqual(['number_unsafe'])
  expect(() => answer(number)).toThrow(
    expect.objectContaining({ detail: expect.stringMatching(/lose digits.*text/) }),
  )
  const flow = compiled(`${HEAD}do: [{ a: { set: { id: '\${ .text | fromjson }' } } }]`)
  expect(simulate(flow, { input: { text: `[${number}]` } })).toMatchObject({
    status: 'faulted',
    error: { detail: expect.stringContaining('lose digits') },
  })
})

test.each(SAFE)('%s: every entry point accepts it', (number) => {
  expect(faultsOf(`set: { id: ${number} }`)).toEqual([])
  if (!number.startsWith('0000')) expect(answer(number)).toEqual({ a: [{ id: Number(number) }] })
})

test('long digits within a text: are left alone', () => {
  const text = '{"7615917337495251231":"7615917337495251231","b":"\\"7615917337495251231,"}'
  expect(parseNumbersExactly(text)).toEqual({ value: JSON.parse(text) })
})
