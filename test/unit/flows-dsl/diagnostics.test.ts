// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Every diagnostic and warning of the catalogue: its example yields exactly it, at its location, and its fix
 * yields none.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { DIAGNOSTICS, WARNINGS } from '../../../flows-dsl/diagnostics/catalogue.ts'
import type { DiagnosticCode } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { CATALOGUE as PLATFORM } from '../../../src/features/data-operations.ts'

const codes = Object.keys(DIAGNOSTICS) as DiagnosticCode[]

test.each(codes)('%s: example and fix are correct', (code) => {
  const { example, fix, title, explanation } = DIAGNOSTICS[code]
  const offset = example.indexOf('¦')
  const { diagnostics, warnings } = compile(example.replace('¦', ''), { catalogue: PLATFORM })
  const [found, none] = Object.hasOwn(WARNINGS, code) ? [warnings, diagnostics] : [diagnostics, warnings]
  const before = example.slice(0, offset)
  const place = { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') }
  expect(found.map((one) => ({ code: one.code, line: one.line, column: one.column }))).toEqual([
    { code, ...place },
  ])
  expect(none).toEqual([])
  expect(found[0]?.docs).toBe(`/docs/flows/diagnostics/${code}`)
  expect(compile(fix, { catalogue: PLATFORM })).toMatchObject({ diagnostics: [], warnings: [] })
  expect(title).not.toMatch(/\.$/)
  expect(explanation).toMatch(/\.$/)
})

test('every code of the catalogue: is reported somewhere in the compiler', () => {
  const folder = new URL('../../../flows-dsl/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const sources = files.filter((name) => name.endsWith('.ts') && !name.startsWith('diagnostics/'))
  const text = sources.map((name) => readFileSync(new URL(name, folder), 'utf8')).join('\n')
  expect(codes.filter((code) => !text.includes(`'${code}'`))).toEqual([])
})

const TWENTY = `document: { dsl: '9.0.0', namespace: shop, name: a b }
use:
  secrets: [key, 5]
  functions: { loop: { call: loop } }
schedule: { cron: '0 25 * * *' }
input: { schema: { document: { pattern: '(a', typ: object } } }
do:
  - a: { sett: {} }
  - a: { set: {}, wait: PT1S }
  - end: { set: {} }
  - b: { wait: soon }
  - c: { call: colection.get }
  - d: { call: collection.get, with: { name: x, ide: y } }
  - e: { call: grpc }
  - f: { set: { x: 'a \${ .b }' } }
  - g: { set: { x: '\${ .b + }' } }
  - h: { set: {}, then: nowhere }
  - i: { raise: { error: nothing } }
  - j: { set: { x: '\${ $secrets }' } }
  - k: { call: https://x.test/f.yaml }
  - l: { set: { m: 1, m: 2 } }
`

test('definition with more than twenty kinds of diagnostics: reports all of them', () => {
  const { diagnostics } = compile(TWENTY, { catalogue: PLATFORM })
  const found = new Set(diagnostics.map(({ code }) => code))
  expect([...found].sort()).toEqual([
    'circular_reference',
    'cron_invalid',
    'dsl_version_unsupported',
    'duration_invalid',
    'expression_invalid',
    'expression_partial',
    'missing_argument',
    'missing_key',
    'pattern_refused',
    'secret_not_named',
    'task_kind_ambiguous',
    'task_kind_missing',
    'task_name_duplicate',
    'task_name_reserved',
    'unknown_argument',
    'unknown_function',
    'unknown_key',
    'unknown_reference',
    'unknown_target',
    'unsupported_call',
    'unsupported_catalog',
    'value_invalid',
    'wrong_type',
    'yaml_duplicate_key',
  ])
})
