/** Problems as texts for agents, which have no command line, and none of the members of a problem document. */

import { expect, test } from 'vitest'
import { notFound, Problem } from '../../../src/core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../../../src/core/problem-catalogue.ts'
import { problemText } from '../../../src/features/mcp-servers/calls/problem-text.ts'

const NOUNS = [
  'document',
  'execution',
  'flow',
  'flow alias',
  'flow version',
  'function',
  'function version',
  'MCP server',
  'schema',
  'secret',
  'tool',
]

test.each([
  ...Object.keys(PROBLEMS).map((code) => [code, new Problem(code as ProblemCode, { detail: 'd' })] as const),
  ...NOUNS.map((noun) => [noun, notFound(noun)] as const),
])('%s: names no command, no member of a problem document, no header', (_name, problem) => {
  const text = problemText(problem)
  expect(text).not.toMatch(/npx|`tenon |See (`|the `)|Raise the `timeout`/)
  for (const line of text.split('\n')) expect(line).toMatch(/^[\w`“].*\S$/)
})

test.each([
  ['quota_exceeded', 'Delete something that counts towards the quota. An operator can raise the quota.'],
  ['token_expired', 'Refresh the token, or sign in again.'],
  ['filter_too_large', 'Split the query.'],
  ['precondition_failed', 'Read the resource again, then retry.'],
] as const)('%s: the part of its hint that an agent can follow', (code, next) => {
  expect(problemText(new Problem(code, { detail: 'd' }))).toBe(`${code}: d\n${next}`)
})

test('fields that the detail does not name: listed in place of a pointer to them', () => {
  const errors = [{ in: 'body' as const, name: 'a', pointer: '/a', detail: 'is unknown' }]
  expect(problemText(new Problem('validation_failed', { detail: 'Not valid.', errors }))).toBe(
    'validation_failed: Not valid.\n/a: is unknown',
  )
})
