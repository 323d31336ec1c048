/** Checks the hint of a 404, by the noun that was not found. */

import { expect, test } from 'vitest'
import { notFound } from '../../../src/core/problem.ts'

const hintOf = (noun: string) => notFound(noun).fullHint

test.each([
  ['flow', 'npx tenon flow definitions'],
  ['tool', 'npx tenon mcp inspect'],
  ['flow alias', 'npx tenon flow alias list'],
  ['document', 'Check the collection'],
])('no such %s: the hint says how to find it', (noun, text) => {
  expect(hintOf(noun)).toContain(text)
})

test('another noun: the hint of the catalogue', () => {
  expect(hintOf('callback')).toContain('Check the id')
})
