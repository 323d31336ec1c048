/** Checks that summaries and descriptions of the API, of which tools for models are made, stand alone and have one form. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import {
  beginsWithTrueIf,
  DESCRIPTION_RULES,
  namesUnit,
  PROSE_RULES,
  SUMMARY_RULES,
  type Text,
  violations,
} from '../support/prose.ts'

interface ApiText extends Text {
  readonly kind: 'summary' | 'description'
  /** The name of the field that the text describes. */
  readonly field: string
  /** Its JSON type, if the text is of a schema that has one. */
  readonly type: unknown
}

/** The texts below a value, with JSON pointers; a text that many operations share is there once. */
function textsIn(root: unknown): ApiText[] {
  const found = new Map<string, ApiText>()
  const visit = (value: object, at: string, field: string): void => {
    const { type } = value as { type?: unknown }
    for (const [name, member] of Object.entries(value)) {
      const pointer = `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      if (typeof member === 'object' && member !== null) visit(member, pointer, name)
      if (typeof member !== 'string' || (name !== 'summary' && name !== 'description')) continue
      const key = JSON.stringify([name, member, field, type])
      if (!found.has(key)) found.set(key, { kind: name, at: pointer, text: member, field, type })
    }
  }
  visit(Object(root), '', '')
  return [...found.values()]
}

const document: unknown = JSON.parse(readFileSync('docs/reference/openapi.json', 'utf8'))
/** Inputs and outputs that the document shows in another form, such as a stream or a header. */
const schemas = Object.fromEntries(OPERATIONS.map(({ name, input, output }) => [name, { input, output }]))
const texts = [...textsIn(document), ...textsIn(schemas)]
const summaries = texts.filter(({ kind }) => kind === 'summary')
const descriptions = texts.filter(({ kind }) => kind === 'description')

test('texts of the API: summaries and descriptions: are read', () => {
  expect(summaries.length).toBeGreaterThan(100)
  expect(descriptions.length).toBeGreaterThan(400)
})

test.each(SUMMARY_RULES)('summary: of each operation: $name', (rule) => {
  expect(violations(rule, summaries)).toEqual([])
})

test.each(DESCRIPTION_RULES)('description: of each field, parameter and reply: $name', (rule) => {
  expect(violations(rule, descriptions)).toEqual([])
})

test.each(PROSE_RULES)('summary or description: of the API: $name', (rule) => {
  expect(violations(rule, texts)).toEqual([])
})

test(`description: of each boolean: ${beginsWithTrueIf.name}`, () => {
  const booleans = descriptions.filter(({ type }) => type === 'boolean')
  expect(booleans.length).toBeGreaterThan(20)
  expect(violations(beginsWithTrueIf, booleans)).toEqual([])
})

test.each([
  [/_ms$/, namesUnit(/milliseconds/)],
  [/_seconds$/, namesUnit(/[Ss]econds/)],
  [/(?:^|_)bytes$|^size$/, namesUnit(/bytes/)],
  [/_mb$/, namesUnit(/MiB|megabytes/)],
] as const)('description: of each number whose name matches %s: names its unit', (name, rule) => {
  const numbers = descriptions.filter(
    ({ field, type }) => name.test(field) && (type === 'integer' || type === 'number'),
  )
  expect(numbers).not.toEqual([])
  expect(violations(rule, numbers)).toEqual([])
})
