/** Responses of clients: checked against forms of tenants on the thread of the API, so each check is bounded; and their fields. */

import { expect, test } from 'vitest'
import { acceptedFields, validResponses } from '../../../src/features/mcp-servers/calls/client-requests.ts'
import { threadMs } from '../../support/thread-time.ts'

const NAMES = Array.from({ length: 10 }, (_, n) => `a${n}`)
const forAll = <T>(value: T) => Object.fromEntries(NAMES.map((name) => [name, value]))

/** Each definition has two ways to the next one. */
const branching = Object.fromEntries(
  NAMES.concat(NAMES.map((name) => `b${name}`)).map((name, at, all) => {
    const next = all[at + 1]
    const $ref = `#/$defs/${next}`
    return [name, next === undefined ? { type: 'string' } : { anyOf: [{ $ref }, { $ref }] }]
  }),
)

test.each([
  ['references that branch', { $defs: branching, properties: { a: { $ref: '#/$defs/a0' } } }, { a: 1 }],
  ['a costly pattern', { properties: { a: { pattern: '^(a+)+$' } } }, { a: `${'a'.repeat(90_000)}!` }],
  [
    'unique items',
    { properties: { a: { uniqueItems: true } } },
    { a: Array.from({ length: 90_000 }, (_, i) => [i]) },
  ],
])(
  'form with %s: ten responses are checked in little time, and are not valid',
  (_name, requestedSchema, content) => {
    const requests = forAll({ method: 'elicitation/create' as const, params: { requestedSchema } })
    const responses = forAll({ action: 'accept', content })
    const before = threadMs()
    expect(validResponses(requests, responses)).toEqual({})
    expect(threadMs() - before).toBeLessThan(250)
  },
)

const content = { colour: 'red' }

test.each([
  [{ action: 'accept', content }, content],
  [{ action: 'accept' }, undefined],
  [{ action: 'accept', content: [content] }, undefined],
  [{ action: 'decline', content }, undefined],
  [{ action: 'cancel' }, undefined],
  [{ action: ['accept'], content }, undefined],
  [{ content }, undefined],
  ['accept', undefined],
  [null, undefined],
])('result of an elicitation %j: only an accepted one has fields: %j', (response, fields) => {
  expect(acceptedFields(response)).toEqual(fields)
})
