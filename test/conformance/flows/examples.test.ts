/** Every example has cases with the stated outcome that together cover every branch. */

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { checkCases } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import { coverageOf } from '../../../flows-dsl/simulator/simulate.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'

const EXAMPLES = new URL('../../../flows-dsl/examples/', import.meta.url)
const read = (file: string) => readFileSync(new URL(file, EXAMPLES), 'utf8')

const files = readdirSync(EXAMPLES)
const names = files
  .filter((file) => file.endsWith('.yaml') && !file.endsWith('.cases.yaml'))
  .map((file) => file.replace('.yaml', ''))

/** Compiles against the platform's own catalogue, as publishing does. */
function compiled(name: string) {
  const { ir, diagnostics } = compileFlow(read(`${name}.yaml`))
  expect(diagnostics).toEqual([])
  if (ir === undefined) throw new Error(`${name} does not compile.`)
  return ir
}

for (const name of names) {
  test(`example ${name}: its cases have the stated outcome`, () => {
    const ir = compiled(name)
    const checked = checkCases(ir, parse(read(`${name}.cases.yaml`)))
    for (const { name: of, errors, differences } of checked)
      expect([of, errors, differences]).toEqual([of, [], []])
    const { tasks, ways } = coverageOf(ir, ...checked.map(({ simulated }) => simulated?.trace ?? []))
    expect([...tasks.missed, ...ways.missed]).toEqual([])
    expect(checked.length).toBeGreaterThanOrEqual(2)
    expect(checked.length).toBeLessThanOrEqual(5)
  })

  test(`example ${name}: has a description and its own name`, () => {
    expect(read(`${name}.yaml`)).toMatch(/^# [A-Z].*\.\n(?:# .*\n)?document:/)
    expect(compiled(name).document).toMatchObject({ namespace: 'examples', name })
  })
}

test('examples: are numerous enough, and no cases lack a flow', () => {
  expect(names.length).toBeGreaterThanOrEqual(15)
  const flows = files.map((file) => file.replace(/(?:\.cases)?\.yaml$/, ''))
  expect([...new Set(flows)].sort()).toEqual([...names].sort())
})
