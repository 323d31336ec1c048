/**
 * Runs every flow of the corpus and of the examples on fake effects: output, calls, waits and order of steps.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { simulate } from '../../flows-dsl/simulator/simulate.ts'
import type { Simulation } from '../../flows-dsl/simulator/simulation.ts'
import { TASKS } from '../../flows-dsl/tasks/index.ts'
import { type Case, compiled, isSimulated, type SimulatedCase, trace } from './scenario.ts'

const CORPUS = new URL('corpus/', import.meta.url)
const EXAMPLES = new URL('../../flows-dsl/examples/', import.meta.url)

function read(folder: URL, file: string): string {
  return readFileSync(new URL(file, folder), 'utf8')
}

async function check(source: string, one: Case): Promise<void> {
  const { result, steps, calls, waits, events, cancelled } = await trace(source, one)
  const wanted = 'error' in one ? { status: 'faulted' } : { status: 'completed', output: one.output }
  expect(result).toMatchObject(wanted)
  if (result.status === 'completed') expect(result.output).toEqual(one.output)
  else expect(result.status === 'faulted' && result.error).toMatchObject(one.error ?? {})
  expect(steps).toEqual(one.steps)
  if (one.calls !== undefined) expect(calls).toEqual(one.calls)
  if (one.waits !== undefined) expect(waits).toEqual(one.waits)
  expect(cancelled).toEqual(one.cancelled ?? [])
  const ids = events
    .filter(({ phase }) => phase === 'started')
    .map(({ step }) => `${step.pointer}#${step.iteration}`)
  expect(new Set(ids).size).toBe(ids.length)
}

function checkSimulated(source: string, one: SimulatedCase): void {
  const run = () => simulate(compiled(source), one)
  if (one.invalid !== undefined) {
    expect(run).toThrow(one.invalid)
    return
  }
  const { trace: lines, status, ...simulated } = run()
  expect([status, simulated.error]).toMatchObject([
    one.status ?? (one.error ? 'faulted' : 'completed'),
    one.error,
  ])
  expect(simulated.output).toEqual(one.output)
  expect(simulated.compensation).toEqual(one.compensation)
  if (one.duration_ms !== undefined) expect(simulated.duration_ms).toBe(one.duration_ms)
  if (one.asks !== undefined) expect(lines.flatMap(({ asks }) => asks ?? [])).toEqual(one.asks)
  const entered = lines.filter(({ phase }) => phase === 'started' || phase === 'skipped')
  const steps = entered.map(({ phase, name }) => (phase === 'skipped' ? `-${name}` : name))
  if (one.steps !== undefined) expect(steps).toEqual(one.steps)
}

const flows = readdirSync(CORPUS).filter((file) => file.endsWith('.yaml'))

for (const file of flows) {
  const cases: Record<string, Case | SimulatedCase> = JSON.parse(read(CORPUS, file.replace('.yaml', '.json')))
  for (const [name, one] of Object.entries(cases)) {
    const source = read(CORPUS, file)
    test(`${file}: ${name}`, () => (isSimulated(one) ? checkSimulated(source, one) : check(source, one)))
  }
}

for (const file of ['hello', 'order']) {
  test(`example ${file}`, async () => {
    await check(read(EXAMPLES, `${file}.yaml`), JSON.parse(read(EXAMPLES, `${file}.expected.json`)))
  })
}

test('the hello example greets the world where no name is given', async () => {
  const { result, calls } = await trace(read(EXAMPLES, 'hello.yaml'), {
    input: {},
    answers: { 'collection.create': { id: 'x' } },
  })
  const message = 'Hello, world! Tell me your name next time.'
  expect(result).toEqual({ status: 'completed', output: { message, greeting_id: 'x' } })
  expect(calls).toEqual([
    {
      function: 'collection.create',
      arguments: { name: 'greetings', document: { name: 'world', message } },
    },
  ])
})

test('the order example reviews what is large', async () => {
  const { result, steps, waits, calls } = await trace(read(EXAMPLES, 'order.yaml'), {
    input: { id: 7, total: 1000 },
    answers: { http: { decision: 'yes' } },
  })
  expect(result).toEqual({ status: 'completed', output: { decision: 'yes', path: 'review' } })
  expect(steps).toEqual(['size', 'review', 'cool', 'ask', 'done'])
  expect(waits).toEqual([300_000])
  expect(calls[0]?.['arguments']).toEqual({
    method: 'POST',
    endpoint: 'https://shop.example.com/reviews',
    body: { order: 7, total: 1000 },
    output: 'content',
    redirect: false,
  })
})

/**
 * Blocks of the README that open with `document:` are flows; a comment line `# input → output` is a claim. What stands in
 * comments after `# with` is given to the simulator; `undone` claims what was undone of a flow that faults.
 */
const readme = read(new URL('../../flows-dsl/', import.meta.url), 'README.md')
const blocks = [...readme.matchAll(/```yaml\n(document:[\s\S]*?)```/g)].map(([, block]) => block ?? '')
const claims = blocks.flatMap((block) => {
  const [, more = '{}'] = /^# with (\{[\s\S]*?\]\})$/m.exec(block) ?? []
  const extras: Simulation = JSON.parse(more.replaceAll('\n#', ''))
  return [...block.matchAll(/^# (\{.*) → (\S.*)$/gm)].map(([, given = '', wanted = '']) => ({
    block,
    extras,
    given,
    wanted,
  }))
})
const ANSWERS = { 'collection.create': { id: 'd1' } }

test.each(claims)('README: $given', async ({ block, extras, given, wanted }) => {
  const input = JSON.parse(given)
  if (Object.keys(extras).length === 0 && !wanted.startsWith('undone ')) {
    const { result } = await trace(block, { input, answers: ANSWERS })
    expect(result).toEqual({ status: 'completed', output: JSON.parse(wanted) })
    return
  }
  const mocks = { 'collection.create': { output: { id: 'd1' } }, 'collection.get': { output: null } }
  const { status, output, compensation } = simulate(compiled(block), { input, mocks, ...extras })
  if (wanted.startsWith('undone ')) {
    const undone = JSON.parse(wanted.slice('undone '.length))
    expect([status, compensation]).toEqual(['faulted', { undone, failures: [] }])
  } else expect([status, output]).toEqual(['completed', JSON.parse(wanted)])
})

test('the README has flows, and each claims something', () => {
  expect(blocks.length).toBeGreaterThan(0)
  for (const block of blocks) expect(claims.some((claim) => claim.block === block)).toBe(true)
})

test('the corpus has a flow for every kind of task', () => {
  const kinds = flows.flatMap((file) => compiled(read(CORPUS, file)).do.map(({ kind }) => kind))
  expect(TASKS.map(({ kind }) => kind).filter((kind) => !kinds.includes(kind))).toEqual([])
})
