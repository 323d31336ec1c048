/**
 * Runs every row of the conformance table, or finds the test that it names;
 * docs/reference/flow-conformance.md lists them.
 */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { checkCase } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import type { Json } from '../../../flows-dsl/ir.ts'
import { type ConformanceRow, conformanceRows } from '../../../src/cli/stack/reference.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'

const DOCUMENT = { dsl: '1.0.3', namespace: 'conformance', name: 'row', version: '1.0.0' }

function compiled({ flow = {} }: ConformanceRow) {
  const { document = {}, ...rest } = flow as { document?: object }
  return compileFlow(stringify({ document: { ...DOCUMENT, ...document }, ...rest }))
}

const rows = conformanceRows()

test.each(rows.filter(({ expect: wanted }) => wanted !== undefined))('$of: $construct', (row) => {
  const { ir, diagnostics } = compiled(row)
  expect(diagnostics).toEqual([])
  if (ir === undefined) return
  const {
    of: _of,
    construct,
    flow: _flow,
    note: _note,
    partly: _partly,
    expect: wanted = {},
    ...simulation
  } = row
  const checked = checkCase(ir, { ...simulation, name: construct, expect: wanted } as unknown as Json)
  expect([checked.errors, checked.differences]).toEqual([[], []])
})

test.each(rows.filter(({ fault }) => fault !== undefined))('$of: $construct: is rejected', (row) => {
  expect(compiled(row).diagnostics.map(({ code }) => code)).toEqual([row.fault])
})

test.each(rows.filter((row) => row.test !== undefined))(
  '$of: $construct: the named test exists',
  ({ test: named }) => {
    const [file = '', name = ''] = named ?? []
    const text = readFileSync(file, 'utf8')
    // After `test` or `test.each(…)`, in either kind of quotes.
    const found = [`('${name}', `, `("${name}", `].map((title) => text.split(title).length - 1)
    expect(found.toSorted()).toEqual([0, 1])
  },
)

test('conformance rows: have exactly one kind of proof, and each construct occurs once', () => {
  for (const row of rows) {
    const { expect: wanted, fault, test: named, missing } = row
    const said = [wanted, fault, named, missing].filter((one) => one !== undefined)
    expect([row.construct, said.length]).toEqual([row.construct, 1])
  }
  const names = rows.map(({ of, construct }) => `${of} ${construct}`)
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})
