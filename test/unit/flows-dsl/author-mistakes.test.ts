// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Mistakes that authors make: the diagnostic says what to write instead. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const task = (body: string) => `${HEAD}do:\n  - a: { ${body} }`

test.each([
  [task("set: { x: '${ .a' }"), 'expression_partial', 3, '`}` is missing'],
  [task("if: '.a === 1', set: {}"), 'expression_invalid', 3, '`==`'],
  [task("if: '.a && .b', set: {}"), 'expression_invalid', 3, '`and`'],
  [task("if: '.a || .b', set: {}"), 'expression_invalid', 3, '`or`'],
  [task("set: { x: '${ `a` }' }"), 'expression_invalid', 3, 'double quotes'],
  [task('set: {}, retry: { delay: PT1S }'), 'unknown_key', 3, '`catch` of a `try`'],
  [task('forEach: { in: .a }, do: [{ b: { set: {} } }]'), 'unknown_key', 3, '`for: {'],
  [task('set: {}, while: .a'), 'unknown_key', 3, 'beside a `for`'],
  ['id: x\nspecVersion: "0.8"\nstates: []', 'unknown_key', 2, 'Serverless Workflow 0.8'],
  ['{ "StartAt": "A", "States": {} }', 'unknown_key', 1, 'Amazon States Language'],
])('%s: the diagnostic names the remedy', (source, code, line, remedy) => {
  const { faults } = compile(source, { catalogue: CATALOGUE })
  const texts = faults
    .filter((one) => one.code === code && one.line === line)
    .map(({ message, hint = '' }) => `${message} ${hint}`)
  expect(texts.join('\n')).toContain(remedy)
})
