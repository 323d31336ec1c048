/**
 * Runs every block of the language's README, and those with claims of the pages about flows. Comments at the end of a flow are claims, `# input → outcome`,
 * with an outcome that is an output, `faults` with fields of the error, `undone` with the compensations of a
 * flow that faults, or a status; before them, `# with:` gives the simulated environment.
 */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Simulated, Simulation } from '../../../flows-dsl/simulator/types.ts'
import { TASKS } from '../../../flows-dsl/tasks/index.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'

const read = (page: string) => readFileSync(new URL(`../../../${page}`, import.meta.url), 'utf8')
const blocksOf = (page: string) =>
  [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, block = '']) => block)
const README = read('flows-dsl/README.md')
const blocks = blocksOf(README)
const flows = blocks.filter((block) => block.startsWith('document:'))
const CLAIM = /^(\S.*) → (\S.*)$/

interface Claims {
  readonly flow: string
  readonly around: Simulation
  readonly claims: readonly { readonly input: string; readonly outcome: string }[]
}

/** The claims in the comments at the end of a flow. */
function claimsOf(flow: string): Claims {
  const [comments = ''] = /(?:^#.*\n)+$/m.exec(flow) ?? []
  const lines = comments.split('\n').map((line) => line.slice(2))
  const claims = lines.flatMap((line) => {
    const [, input, outcome] = CLAIM.exec(line) ?? []
    return input === undefined || outcome === undefined ? [] : [{ input, outcome }]
  })
  const around = parse(lines.filter((line) => !CLAIM.test(line)).join('\n'))
  return { flow, around: around?.with ?? {}, claims }
}

function compiled(flow: string): FlowIR {
  const { ir, diagnostics } = compileFlow(flow)
  expect(diagnostics).toEqual([])
  if (ir === undefined) throw new Error('It does not compile.')
  return ir
}

function check(simulated: Simulated, outcome: string): void {
  const { status, output, error, compensation } = simulated
  const [, word, more] = /^(faults|undone) (.*)$/.exec(outcome) ?? []
  if (word === 'faults') expect([status, error]).toMatchObject(['faulted', parse(more ?? '')])
  else if (word === 'undone') {
    expect([status, compensation]).toEqual(['faulted', { undone: parse(more ?? ''), failures: [] }])
  } else if (outcome === 'suspended' || outcome === 'waiting') expect(status).toBe(outcome)
  else expect([status, output, error]).toEqual(['completed', parse(outcome), undefined])
}

const all = flows.map(claimsOf)
const others = ['flows', 'from-kestra', 'from-zigflow']
  .flatMap((page) => blocksOf(read(`docs/${page}.md`)))
  .map(claimsOf)
  .filter(({ claims }) => claims.length > 0)

test.each(
  [...all, ...others].flatMap(({ claims, ...more }) => claims.map((claim) => ({ ...claim, ...more }))),
)('$input → $outcome', ({ flow, around, input, outcome }) => {
  check(simulate(compiled(flow), { ...around, input: parse(input) }), outcome)
})

test('every block: is a flow with claims, or the cases, which have a test of their own', () => {
  for (const { flow, claims } of all) expect([flow, claims.length > 0]).toEqual([flow, true])
  expect(blocks.length).toBe(flows.length + 1)
  expect(flows.length).toBeGreaterThanOrEqual(10)
  expect(others.map(({ flow }) => /name: (\w+)/.exec(flow)?.[1])).toEqual(['dates', 'orders', 'transfer'])
})

test('README: is short, and names every kind of task', () => {
  expect(README.split('\n').length).toBeLessThanOrEqual(410)
  const named = TASKS.filter(({ kind }) => README.includes(`\`${kind}`))
  expect(named).toEqual(TASKS)
})
