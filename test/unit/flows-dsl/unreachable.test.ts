// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Warnings about unreachable tasks: one for each sequence of them, and none for a task that an execution may
 * enter.
 */

import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import type { FlowIR } from '../../../flows-dsl/ir.ts'
import { Machine, newState } from '../../../flows-dsl/machine/machine.ts'
import { CATALOGUE as PLATFORM } from '../../../src/features/data-operations.ts'
import { flowTexts } from '../../conformance/flows/generated-flows.ts'
import { INFO } from '../../conformance/flows/scenario.ts'
import { repeated } from '../../support/stack/soak.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"
const SET = '{ set: { n: 1 } }'
const RAISE = 'raise: { error: { type: https://x.example/e, status: 400 } }'

function warningsIn(source: string) {
  const { ir, diagnostics, warnings } = compile(source, { catalogue: PLATFORM })
  if (ir === undefined) throw new Error(JSON.stringify(diagnostics))
  return warnings
}

/** Exactly the tasks after a `¦` have a warning, in the order of the text. */
function check(marked: string): void {
  const [first = '', ...more] = `${HEAD}${marked}`.split('¦')
  let before = first
  const places = more.map((part) => {
    const at = [before.split('\n').length, before.length - before.lastIndexOf('\n')]
    before += part
    return [...at, (/^\w+/.exec(part) ?? [])[0]]
  })
  const found = warningsIn(before).map(({ line, column, pointer }) => [
    line,
    column,
    pointer.split('/').at(-1),
  ])
  expect(found).toEqual(places)
}

describe('unreachable', () => {
  test.each([
    ['what follows `end`', `do: [{ a: { set: {}, then: end } }, { ¦b: ${SET} }]`],
    ['what follows `exit`', `do: [{ a: { set: {}, then: exit } }, { ¦b: ${SET} }]`],
    ['what is jumped over', `do: [{ a: { set: {}, then: c } }, { ¦b: ${SET} }, { c: ${SET} }]`],
    ['what follows a jump back', `do: [{ a: { set: {} } }, { b: { wait: PT1S, then: a } }, { ¦c: ${SET} }]`],
    ['what follows a jump to itself', `do: [{ a: { wait: PT1S, then: a } }, { ¦b: ${SET} }]`],
    ['what follows an error', `do: [{ a: { ${RAISE} } }, { ¦b: ${SET} }]`],
    [
      'what follows an error, whatever its `then` says',
      `do: [{ a: { ${RAISE}, then: b } }, { ¦b: ${SET} }, { c: ${SET} }]`,
    ],
    [
      'what follows a switch with a default, where all lead elsewhere',
      `do: [{ a: { switch: [{ x: { when: .n, then: c } }, { y: { then: end } }], then: b } }, { ¦b: ${SET} }, { c: ${SET} }]`,
    ],
    [
      'what follows a switch without one, where it leads elsewhere itself',
      `do: [{ a: { switch: [{ x: { when: .n, then: c } }], then: end } }, { ¦b: ${SET} }, { c: ${SET} }]`,
    ],
    [
      'what follows tasks that all end the flow',
      `do: [{ a: { do: [{ b: { set: {}, then: end } }] } }, { ¦c: ${SET} }]`,
    ],
    ['what follows tasks that fail', `do: [{ a: { do: [{ b: { ${RAISE} } }] } }, { ¦c: ${SET} }]`],
    [
      'what follows a `try` of which neither part goes on',
      `do: [{ a: { try: [{ b: { ${RAISE} } }], catch: { do: [{ c: { set: {}, then: end } }] } } }, { ¦d: ${SET} }]`,
    ],
    [
      'what follows a `try` that leads elsewhere, and so does what it catches',
      `do: [{ a: { try: [{ b: ${SET} }], catch: { then: end }, then: d } }, { ¦c: ${SET} }, { d: ${SET} }]`,
    ],
    [
      'what follows branches of which one never ends well',
      `do: [{ a: { fork: { branches: [{ b: ${SET} }, { c: { ${RAISE} } }] } } }, { ¦d: ${SET} }]`,
    ],
    [
      'a task after a race that ends the flow, whichever branch wins',
      `do: [{ a: { fork: { compete: true, branches: [{ b: { set: {}, then: end } }, { c: { set: {}, then: end } }] } } }, { ¦d: ${SET} }]`,
    ],
    [
      'a stretch, of which the first is told',
      `do: [{ a: { ${RAISE} } }, { ¦b: ${SET} }, { c: ${SET} }, { d: { do: [{ e: ${SET} }] } }]`,
    ],
    [
      'two stretches',
      `do: [{ a: { set: {}, then: c } }, { ¦b: ${SET} }, { c: { set: {}, then: end } }, { ¦d: { set: {}, then: b } }]`,
    ],
    [
      'a circle of its own',
      `do: [{ a: { set: {}, then: end } }, { ¦b: ${SET} }, { c: { set: {}, then: b } }]`,
    ],
    [
      'tasks of a loop',
      `do: [{ a: { for: { in: .l }, do: [{ b: { set: {}, then: exit } }, { ¦c: ${SET} }] } }, { d: ${SET} }]`,
    ],
    [
      'tasks of a branch',
      `do: [{ a: { fork: { branches: [{ b: { do: [{ c: { ${RAISE} } }, { ¦d: ${SET} }] } }] } } }]`,
    ],
    [
      'tasks of either part of a `try`',
      `do: [{ a: { try: [{ b: { ${RAISE} } }, { ¦c: ${SET} }], catch: { do: [{ d: { set: {}, then: exit } }, { ¦e: ${SET} }] } } }]`,
    ],
    [
      'tasks for an event',
      `do: [{ a: { listen: { to: { any: [] } }, foreach: { do: [{ b: { set: {}, then: exit } }, { ¦c: ${SET} }] } } }, { d: ${SET} }]`,
    ],
    [
      'tasks that undo',
      `do: [{ a: { set: {}, compensate: [{ b: { set: {}, then: exit } }, { ¦c: ${SET} }] } }, { d: ${SET} }]`,
    ],
    [
      'tasks of a function, once however often it is called',
      `use: { functions: { f: { do: [{ a: { set: {}, then: exit } }, { ¦b: ${SET} }] } } }
do: [{ c: { call: f } }, { d: { call: f } }]`,
    ],
    [
      'tasks of a function that extensions call too, in the place where it stands',
      `use:
  functions: { f: { do: [{ a: { set: {}, then: exit } }, { ¦b: ${SET} }] } }
  extensions: [{ e: { extend: wait, before: [{ x: { call: f } }] } }]
do: [{ c: { wait: PT1S } }, { d: { call: f } }]`,
    ],
    [
      'what follows an error that could be undone',
      `do: [{ a: { ${RAISE}, compensate: [{ b: ${SET} }] } }, { ¦c: ${SET} }]`,
    ],
    [
      'what follows a function that ends the flow',
      `use: { functions: { f: { set: {}, then: end } } }\ndo: [{ c: { call: f } }, { ¦d: ${SET} }]`,
    ],
    [
      'tasks of an extension, once however many it extends',
      `use: { extensions: [{ e: { extend: set, before: [{ a: { ${RAISE} } }, { ¦b: ${SET} }] } }] }
do: [{ c: ${SET} }, { d: ${SET} }]`,
    ],
    [
      'what follows an error that is not held, in a flow that holds others',
      `onFault: hold\ndo: [{ a: { onFault: fail, ${RAISE} } }, { ¦b: ${SET} }]`,
    ],
  ])('%s: yields a warning', (_what, marked) => check(marked))
})

describe('reachable', () => {
  test.each([
    [
      'what follows a task that may be passed over',
      `do: [{ a: { if: .n, set: {}, then: end } }, { b: ${SET} }]`,
    ],
    ['what follows an error that may be passed over', `do: [{ a: { if: .n, ${RAISE} } }, { b: ${SET} }]`],
    [
      'what a jump from behind names',
      `do: [{ a: { set: {}, then: c } }, { b: { set: {}, then: end } }, { c: { set: {}, then: b } }]`,
    ],
    [
      'what a case names',
      `do: [{ a: { switch: [{ x: { when: .n, then: c } }, { y: { then: b } }] } }, { b: { set: {}, then: end } }, { c: ${SET} }]`,
    ],
    [
      'what follows a switch without a default',
      `do: [{ a: { switch: [{ x: { when: .n, then: end } }] } }, { b: ${SET} }]`,
    ],
    [
      'what follows a case that goes on',
      `do: [{ a: { switch: [{ x: { then: continue } }], then: end } }, { b: ${SET} }]`,
    ],
    [
      'what follows tasks that are left by `exit`',
      `do: [{ a: { do: [{ b: { set: {}, then: exit } }] } }, { c: ${SET} }]`,
    ],
    [
      'what follows a loop, which may be over nothing',
      `do: [{ a: { for: { in: .l }, do: [{ b: { set: {}, then: end } }] } }, { c: ${SET} }]`,
    ],
    [
      'what follows something that waits',
      `do: [{ a: { wait: PT1S } }, { b: { listen: { to: { any: [] } } } }, { c: ${SET} }]`,
    ],
    [
      'what catches, and what follows it',
      `do: [{ a: { try: [{ b: { ${RAISE} } }], catch: { do: [{ c: ${SET} }] } } }, { d: ${SET} }]`,
    ],
    [
      'what follows where errors are passed over',
      `do: [{ a: { try: [{ b: { ${RAISE} } }], catch: {} } }, { c: ${SET} }]`,
    ],
    [
      'what the way of a caught error names',
      `do: [{ a: { try: [{ b: ${SET} }], catch: { then: c }, then: end } }, { c: ${SET} }]`,
    ],
    [
      'what the way of an error that is handled names',
      `do: [{ a: { try: [{ b: ${SET} }], catch: { do: [{ c: ${SET} }], then: d }, then: end } }, { d: ${SET} }]`,
    ],
    [
      'what follows a race that one may win',
      `do: [{ a: { fork: { compete: true, branches: [{ b: ${SET} }, { c: { ${RAISE} } }] } } }, { d: ${SET} }]`,
    ],
    [
      'what follows what is held, which may be skipped',
      `onFault: hold\ndo: [{ a: { ${RAISE} } }, { b: ${SET} }]`,
    ],
    [
      'the same, where the task around is held',
      `do: [{ a: { onFault: hold, do: [{ b: { onFault: fail, ${RAISE} } }] } }, { c: ${SET} }]`,
    ],
    [
      'what a switch that is held and skipped leads to',
      `do: [{ a: { onFault: hold, switch: [{ x: { when: .n, then: end } }, { y: { then: end } }] } }, { b: ${SET} }]`,
    ],
    [
      'what follows in a function, held in one of its places',
      `use: { functions: { f: { do: [{ a: { ${RAISE} } }, { b: ${SET} }] } } }
do: [{ c: { if: .n, call: f } }, { d: { onFault: hold, call: f } }]`,
    ],
    [
      'what follows an error that an extension leaves out',
      `use: { extensions: [{ e: { extend: raise, before: [{ a: { if: .n, set: {}, then: exit } }] } }] }
do: [{ b: { ${RAISE} } }, { c: ${SET} }]`,
    ],
  ])('%s: yields no warning', (_what, source) => check(source))
})

test('warning: has a location, an explanation, a fix, a page and its line, as a diagnostic does', () => {
  const source = `${HEAD}do:\n  - pay: { set: { n: 1 }, then: end }\n  - ship: ${SET}\n`
  expect(warningsIn(source)).toEqual([
    {
      code: 'task_unreachable',
      message: 'The task `ship` is unreachable: `pay` before it has `then: end`.',
      hint: 'Name the task in a `then`, or remove it.',
      line: 4,
      column: 5,
      pointer: '/do/1/ship',
      docs: '/docs/flows/diagnostics/task_unreachable',
      excerpt: '4 |   - ship: { set: { n: 1 } }\n  |     ^',
    },
  ])
  const why = (before: string) => warningsIn(`${HEAD}do: [{ a: ${before} }, { b: ${SET} }]`)[0]?.message
  expect(why(`{ ${RAISE} }`)).toContain('`a` before it always raises an error.')
  expect(why('{ switch: [{ c: { then: end } }] }')).toContain(
    '`a` before it continues elsewhere in all cases.',
  )
  expect(why(`{ do: [{ c: { ${RAISE} } }] }`)).toContain('`a` before it never continues.')
})

test('definition with an error: has no warnings; many warnings: the first hundred are reported', () => {
  const dead = Array.from(
    { length: 120 },
    (_, n) => `{ d${n}: { do: [{ a: { set: {}, then: exit } }, { b: ${SET} }] } }`,
  )
  const source = `${HEAD}do: [${dead.join(', ')}]`
  expect(warningsIn(source)).toHaveLength(100)
  const { diagnostics, warnings } = compile(source.replace('set: { n: 1 }', 'sett: 1'), {
    catalogue: PLATFORM,
  })
  expect([diagnostics.length, warnings]).toEqual([1, []])
})

test('examples: have no warnings; flows of the corpus: have the intended ones', () => {
  const warned = ['test/conformance/flows/corpus', 'flows-dsl/examples'].flatMap((folder) => {
    const files = readdirSync(folder).filter((one) => /(?<!\.cases)\.yaml$/.test(one))
    return files.flatMap((file) =>
      warningsIn(readFileSync(`${folder}/${file}`, 'utf8')).map(({ pointer }) => `${file} ${pointer}`),
    )
  })
  expect(warned).toEqual(['for-directives.yaml /do/1/never', 'switch-none.yaml /do/1/between'])
})

interface Text {
  readonly do: readonly object[]
}

/** There are many large ones, and they show no more. */
const texts = flowTexts(true).filter((text) => text.length < 3_000)

/**
 * A generated flow with generated functions, extensions that may leave tasks out, and held tasks that are
 * skipped.
 */
const flows = fc
  .record({
    main: texts,
    called: texts,
    around: texts,
    extend: fc.constantFrom('all', 'raise', 'switch', 'composite', 'try', undefined),
    when: fc.constantFrom('before', 'after'),
    onFault: fc.constantFrom('hold', 'fail', undefined),
  })
  .map(({ main, called, around, extend, when, onFault }) => {
    const { do: tasks, ...head } = JSON.parse(main) as Text
    const list = (text: string) => (JSON.parse(text) as Text).do
    const extension = { extend, [when]: [{ first: { call: 'f' } }, ...list(around)] }
    const use = { functions: { f: { do: list(called) } }, ...(extend && { extensions: [{ e: extension }] }) }
    const all = [{ first: { try: [{ call: { call: 'f' } }], catch: {} } }, ...tasks]
    return JSON.stringify({ ...head, use, ...(onFault && { onFault }), do: all })
  })

/** Pointers of all tasks that an execution enters if every held task is skipped. */
function visited(ir: FlowIR, input: object): Set<string> {
  const pointers = new Set<string>()
  const machine = new Machine(ir, newState(ir, { ...input }, { ...INFO, stepsMax: 80 }), {
    nowMs: () => 0,
    random: () => 0,
    record: ({ step }) => {
      pointers.add(step.pointer.replace('/use/extensions/functions/', '/use/functions/'))
    },
  })
  machine.begin()
  while (machine.result === undefined) {
    const held = Object.keys(machine.held())
    if (held.length === 0) throw new Error('It waits for nothing.')
    for (const step of held) machine.release(step, { skip: input as { n: number } })
  }
  return pointers
}

test('any flow: tasks that an execution enters have no warning', () => {
  const seen = { warnings: 0, entered: 0 }
  fc.assert(
    fc.property(flows, (source) => {
      const { ir, diagnostics, warnings } = compile(source, { catalogue: PLATFORM })
      // An extension of many tasks is copied into all of them.
      fc.pre(diagnostics[0]?.code !== 'compiled_too_large')
      if (ir === undefined) throw new Error(JSON.stringify(diagnostics))
      const warned = warnings.map(({ pointer }) => pointer)
      expect(new Set(warned).size).toBe(warned.length)
      for (const input of [{ no: true, n: 0 }, { n: 1 }, { n: 2 }]) {
        const entered = visited(ir, input)
        expect(warned.filter((pointer) => entered.has(pointer))).toEqual([])
        seen.entered += entered.size
      }
      seen.warnings += warned.length
    }),
    { seed: 19, numRuns: repeated(50, 150), endOnFailure: true },
  )
  expect(seen.warnings).toBeGreaterThan(repeated(20, 80))
  expect(seen.entered).toBeGreaterThan(repeated(400, 1_500))
})
