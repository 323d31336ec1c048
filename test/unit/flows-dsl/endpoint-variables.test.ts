// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Variables of endpoints: a missing, null, empty or structured value faults before a request is made. */

import { expect, test } from 'vitest'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const HTTP = compiled(
  `${HEAD}do: [{ a: { call: http, with: { method: delete, endpoint: 'https://example.com/items/{id}' } } }]`,
)
const OPENAPI = compiled(
  `${HEAD}do: [{ a: { call: openapi, with: { document: { endpoint: 'https://example.com/{id}/api.json' }, operationId: x } } }]`,
)

test.each([
  [{}, 'the input of the task has no `id`'],
  [null, 'the input of the task has no `id`'],
  [{ id: null }, '`id` in the input of the task is null'],
  [{ id: '' }, '`id` in the input of the task is empty'],
  [{ id: [1] }, '`id` in the input of the task is a list'],
  [{ id: {} }, '`id` in the input of the task is a mapping'],
])('input %j: faults with `expression` and calls nothing', (input, reason) => {
  for (const flow of [HTTP, OPENAPI]) {
    const { error, trace } = simulate(flow, { input, mocks: { a: { output: 'called' } } })
    expect(error).toMatchObject({ status: 400, title: 'Expression error', instance: '/do/0/a' })
    expect(error?.detail).toContain(`\`{id}\` of the endpoint: ${reason}`)
    expect(trace.some(({ asks }) => asks !== undefined)).toBe(false)
  }
})

test.each([[{ id: 0 }], [{ id: false }], [{ id: ' ' }]])('input %j: calls', (input) => {
  expect(simulate(HTTP, { input, mocks: { a: { output: 'called' } } }).output).toBe('called')
})
