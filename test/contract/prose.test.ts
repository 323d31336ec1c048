/** Checks that summaries and descriptions of the API, of which tools for models are made, stand alone and have one form. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import {
  beginsUpright,
  beginsWithTrueIf,
  beginsWithVerb,
  DESCRIPTION_RULES,
  endsWithPeriod,
  hasNoIdiom,
  hasNoPeriod,
  hasSeveralWords,
  hasSubject,
  IMPERATIVE_VERBS,
  namesThingFirst,
  namesUnit,
  PROSE_RULES,
  SUMMARY_RULES,
  statesDefault,
  type Text,
  usesArticles,
  usesCommonWords,
  violations,
  writesLiteralsAsCode,
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
      // Values of examples are data.
      if (name === 'examples') continue
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

test.each([beginsUpright, hasSubject, statesDefault, hasNoIdiom, usesCommonWords])(
  'description: in the schema of the language: $name',
  (rule) => {
    const language: unknown = JSON.parse(readFileSync('docs/reference/flow-schema.json', 'utf8'))
    const found = textsIn(language).filter(
      // Calls have the summaries of their operations.
      ({ text, at }) => !/^call\b|^\w+$/.test(text) && !at.endsWith('/call/description'),
    )
    expect(found.length).toBeGreaterThan(100)
    expect(violations(rule, found)).toEqual([])
  },
)

test('summary: the list of verbs: has none that no operation begins with', () => {
  const used = new Set(summaries.map(({ text }) => text.split(' ')[0]))
  expect(IMPERATIVE_VERBS.filter((verb) => !used.has(verb))).toEqual([])
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

test.each([
  [beginsWithVerb(), 'Requests of a workspace', 'Query the requests of a workspace'],
  [hasNoPeriod, 'Delete a user. Tokens end', 'Delete a user; tokens end (CloudEvents 1.0)'],
  [beginsUpright, 'null: no limit.', '`null`: no limit.'],
  [hasSubject, 'Of the client.', 'Name of the client.'],
  [hasSubject, 'Whether it is open.', 'True if it is open.'],
  [namesThingFirst, '`off`: no users.', 'Sign-up. `off`: no users.'],
  [hasSeveralWords, 'Bytes.', 'Size in bytes.'],
  [endsWithPeriod, 'Items per page', 'Items per page.'],
  [statesDefault, 'Items per page; 50 by default.', 'Items per page. Default: 50.'],
  [hasNoIdiom, 'Number of items, 50 where absent.', 'Number of items, 50 if absent.'],
  [usesCommonWords, 'Documents that fit.', 'Documents that match.'],
  [writesLiteralsAsCode, 'Reason, or null.', 'Reason, or `null`.'],
  [usesArticles, 'Id of a API key.', 'Id of an API key, a user or a one-time link.'],
  [beginsWithTrueIf, 'Mails a link.', 'True if a link is mailed.'],
])('rule of prose: $name: refuses the old form, accepts the new one', ({ find }, old, better) => {
  expect(find(old)).not.toBe(undefined)
  expect(find(better)).toBe(undefined)
})
