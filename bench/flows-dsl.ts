// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Measures the compiler on a definition of 200 tasks of all kinds, with and without errors, and the
 * interpreter on one flow.
 */

import { compile } from '../flows-dsl/compile/compile.ts'
import type { FlowIR } from '../flows-dsl/ir.ts'
import { simulate } from '../flows-dsl/simulator/simulate.ts'
import { CATALOGUE } from '../src/features/data-operations.ts'
import { interleaved, print } from './measure.ts'

const ROUNDS = 200
const TASKS = 200
const STEPS = 1_000

/** Prints all results; takes a few seconds. */
export async function flowsDsl(): Promise<void> {
  const sound = definition(TASKS)
  const faulty = sound.replaceAll('collection.get', 'colection.get')
  const pure = compile(steps(STEPS), { catalogue: CATALOGUE }).ir
  const works = {
    [`compile ${TASKS} tasks, ${Math.round(sound.length / 1024)} KB`]: async () => compiled(sound, 0),
    [`compile ${TASKS} tasks, ${TASKS / 4} of them at fault`]: async () => compiled(faulty, TASKS / 4),
    'compile 1 task': async () => compiled(definition(1), 0),
    [`simulate ${STEPS} steps without effects`]: async () => simulated(pure),
  }
  print('ms', 'p50', 'p99')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(await interleaved(ROUNDS, works))) {
    print(name, p50Ms, p99Ms)
  }
}

function simulated(ir: FlowIR | undefined): void {
  const output = ir && simulate(ir, { input: { n: 0 } }).output
  if (JSON.stringify(output) !== JSON.stringify({ n: STEPS }))
    throw new TypeError('It came to something else.')
}

function steps(count: number): string {
  const tasks = Array.from({ length: count }, (_, n) => `  - s${n}: { set: { n: '\${ .n + 1 }' } }`)
  return `document: { dsl: '1.0.3', namespace: bench, name: pure, version: '1.0.0' }\ndo:\n${tasks.join('\n')}\n`
}

function compiled(source: string, wanted: number): void {
  const { diagnostics } = compile(source, { catalogue: CATALOGUE })
  if (diagnostics.length !== wanted) throw new TypeError(`${diagnostics.length} faults instead of ${wanted}`)
}

/** Four kinds of tasks in rotation, each with expressions. */
function definition(tasks: number): string {
  const kinds = [
    "set: { total: '${ .price + 1 }', name: '${ \"Hello, \\(.name)!\" }', keep: [1, 2, { deep: true }] }",
    "call: collection.get\n      with: { name: orders, id: '${ .id }' }\n      output: { as: '. | {order: .}' }",
    'switch: [{ big: { when: .total > 100 and .name != null, then: continue } }, { rest: { then: continue } }]',
    "call: http\n      with: { method: post, endpoint: 'https://example.com/{id}', body: { all: '${ . }' } }\n      if: .isPaid == true",
  ]
  const lines = Array.from({ length: tasks }, (_, n) => `  - task${n}:\n      ${kinds[n % kinds.length]}`)
  return `document: { dsl: '1.0.3', namespace: bench, name: long, version: '1.0.0' }\ndo:\n${lines.join('\n')}\n`
}
