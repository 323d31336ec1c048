// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions against naive models: programs without effects, branches that take time, retries. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { trace } from '../../conformance/flows/scenario.ts'
import { repeated } from '../../support/stack/soak.ts'

const HEAD = { document: { dsl: '1.0.3', namespace: 'n', name: 'x', version: '1.0.0' } }

/** JSON is YAML. */
const flowOf = (tasks: readonly object[]) => JSON.stringify({ ...HEAD, do: tasks })

/** A program that writes numbers into a log. */
type Program =
  | { readonly put: number; readonly next: 'exit' | 'end' | 'continue' }
  | { readonly raise: number }
  | { readonly list: readonly Program[] }
  | { readonly loop: readonly Program[]; readonly items: readonly number[]; readonly until: number }
  | { readonly fork: readonly Program[]; readonly compete: boolean }
  | { readonly attempt: readonly Program[]; readonly handler: readonly Program[]; readonly only: number }

const { program } = fc.letrec<{ program: Program; list: Program[] }>((tie) => ({
  list: fc.array(tie('program'), { minLength: 1, maxLength: 3 }),
  program: fc.oneof(
    { maxDepth: 4, depthSize: 'medium' },
    fc.record({ put: fc.nat(9), next: fc.constantFrom('continue', 'continue', 'continue', 'exit', 'end') }),
    fc.record({ raise: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ list: tie('list') }),
    fc.record({ loop: tie('list'), items: fc.array(fc.nat(9), { maxLength: 3 }), until: fc.nat(3) }),
    fc.record({ fork: tie('list'), compete: fc.boolean() }),
    fc.record({ attempt: tie('list'), handler: tie('list'), only: fc.nat(3) }),
  ) as fc.Arbitrary<Program>,
}))

const named = (programs: readonly Program[]) => programs.map((one, index) => ({ [`t${index}`]: taskOf(one) }))

/** `$item` and the detail of `$error` are logged too, if they exist. */
function taskOf(one: Program): object {
  if ('put' in one)
    return Object.fromEntries([
      ['set', { log: `\${ .log + [${one.put}] }` }],
      ['then', one.next],
    ])
  if ('raise' in one) {
    return { raise: { error: { type: 'https://x.example/e', status: one.raise, detail: '${ "\\(.log)" }' } } }
  }
  if ('list' in one) return { do: named(one.list) }
  if ('loop' in one) {
    const note = { note: { set: { log: '${ .log + [100 + $item] + [$index] }' } } }
    const source = { in: `\${ [${one.items.join(', ')}] }` }
    return { for: source, while: `$index < ${one.until}`, do: [note, ...named(one.loop)] }
  }
  if ('fork' in one) {
    const join = { set: { log: `\${ ${one.fork.map((_, index) => `.[${index}].log`).join(' + ')} }` } }
    const fork = { fork: { compete: one.compete, branches: named(one.fork) } }
    return { do: [{ fork }, ...(one.compete ? [] : [{ join }])] }
  }
  const note = { note: { set: { log: '${ .log + [200 + $error.status] + [$error.detail] }' } } }
  const errors = one.only === 0 ? {} : { errors: { with: { status: one.only } } }
  return { try: named(one.attempt), catch: { ...errors, do: [note, ...named(one.handler)] } }
}

type Log = readonly (number | string)[]

class Raised {
  readonly status: number
  readonly log: Log
  constructor(status: number, log: Log) {
    this.status = status
    this.log = log
  }
}

/** The final log, and how the program was left. @throws Raised */
function model(one: Program, log: Log): { readonly log: Log; readonly left?: 'exit' | 'end' } {
  if ('put' in one) {
    const after = { log: [...log, one.put] }
    return one.next === 'continue' ? after : { ...after, left: one.next }
  }
  if ('raise' in one) throw new Raised(one.raise, log)
  if ('list' in one) return modelList(one.list, log)
  if ('loop' in one) {
    let now = log
    for (const [index, item] of one.items.slice(0, one.until).entries()) {
      const after = modelList(one.loop, [...now, 100 + item, index])
      now = after.log
      if (after.left === 'end') return after
    }
    return { log: now }
  }
  if ('fork' in one) {
    const outputs: Log[] = []
    for (const branch of one.fork) {
      const after = model(branch, log)
      if (one.compete || after.left === 'end') return after.left === 'end' ? after : { log: after.log }
      outputs.push(after.log)
    }
    return { log: outputs.flat() }
  }
  try {
    return modelList(one.attempt, log)
  } catch (error) {
    if (!(error instanceof Raised) || (one.only !== 0 && one.only !== error.status)) throw error
    return modelList(one.handler, [...log, 200 + error.status, JSON.stringify(error.log)])
  }
}

function modelList(list: readonly Program[], log: Log): { readonly log: Log; readonly left?: 'end' } {
  let now = log
  for (const one of list) {
    const { log: after, left } = model(one, now)
    now = after
    if (left === 'end') return { log: now, left }
    if (left === 'exit') break
  }
  return { log: now }
}

function outcomeOf(list: readonly Program[]): object {
  try {
    return { status: 'completed', output: { log: modelList(list, []).log } }
  } catch (error) {
    if (!(error instanceof Raised)) throw error
    return { status: 'faulted', error: { status: error.status, detail: JSON.stringify(error.log) } }
  }
}

test('programs without effects: behave as the model', async () => {
  const seen = { completed: 0, faulted: 0, cancelled: 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(program, { minLength: 1, maxLength: 4 }), async (list) => {
      const { result } = await trace(flowOf(named(list)), { input: { log: [] }, stepsMax: 100_000 })
      expect(result).toMatchObject(outcomeOf(list))
      seen[result.status]++
    }),
    { seed: 20_260_301, numRuns: repeated(50, 200) },
  )
  expect(seen.completed).toBeGreaterThan(repeated(10, 50))
  expect(seen.faulted).toBeGreaterThan(repeated(10, 50))
})

test('loop: is a fold', async () => {
  const flow = `${JSON.stringify(HEAD).slice(0, -1)}, "do": [{ "a": {
    "for": { "each": "n", "in": ".all" }, "while": ".sum < 20",
    "do": [{ "add": { "set": { "sum": "\${ .sum + $n }", "count": "\${ $index + 1 }" } } }] } }] }`
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(9), { maxLength: 12 }), async (all) => {
      let wanted: object = { all, sum: 0, count: 0 }
      let sum = 0
      for (const [index, n] of all.entries()) {
        if (sum >= 20) break
        sum += n
        wanted = { sum, count: index + 1 }
      }
      const { result } = await trace(flow, { input: { all, sum: 0, count: 0 } })
      expect(result).toEqual({ status: 'completed', output: wanted })
    }),
    { seed: 20_260_302, numRuns: repeated(25, 100) },
  )
})

test('branches: are a map that takes the time of the slowest, or of the first in a race', async () => {
  const branch = fc.record({
    add: fc.nat(9),
    restsMs: fc.array(fc.integer({ min: 1, max: 50 }), { maxLength: 3 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(branch, { minLength: 1, maxLength: 6 }), fc.boolean(), async (all, compete) => {
      const branches = all.map(({ add, restsMs }, index) => {
        const rests = restsMs.map((milliseconds, at) => ({ [`rest${at}`]: { wait: { milliseconds } } }))
        return { [`b${index}`]: { do: [...rests, { add: { set: { v: `\${ .v + ${add} }` } } }] } }
      })
      const flow = flowOf([{ fork: { fork: { compete, branches } } }])
      const { result, events } = await trace(flow, { input: { v: 1 } })
      const times = all.map(({ restsMs }) => restsMs.reduce((sum, one) => sum + one, 0))
      const endMs = (compete ? Math.min : Math.max)(...times)
      const outputs = all.map(({ add }) => ({ v: 1 + add }))
      expect((events.at(-1)?.at_ms ?? 0) - (events[0]?.at_ms ?? 0)).toBe(endMs)
      if (compete) {
        const fastest = outputs.filter((_, index) => times[index] === endMs)
        expect(fastest).toContainEqual((result as { output: unknown }).output)
      } else expect(result).toEqual({ status: 'completed', output: outputs })
    }),
    { seed: 20_260_303, numRuns: repeated(40, 150) },
  )
})

test('retries: have the number and delays of the model', async () => {
  const policy = fc.record({
    failures: fc.nat(6),
    count: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    delayMs: fc.integer({ min: 1, max: 5_000 }),
    backoff: fc.constantFrom(undefined, 'constant', 'linear', 'exponential'),
    limitMs: fc.option(fc.integer({ min: 1, max: 60_000 }), { nil: undefined }),
    jitterMs: fc.option(fc.tuple(fc.nat(1_000), fc.nat(1_000)), { nil: undefined }),
    random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    handled: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(
      policy,
      async ({ failures, count, delayMs, backoff, limitMs, jitterMs, random, handled }) => {
        const [fromMs = 0, moreMs = 0] = jitterMs ?? []
        const retry = {
          delay: { milliseconds: delayMs },
          ...(backoff && { backoff: { [backoff]: {} } }),
          limit: {
            ...(count && { attempt: { count } }),
            ...(limitMs && { duration: { milliseconds: limitMs } }),
          },
          ...(jitterMs && {
            jitter: { from: { milliseconds: fromMs }, to: { milliseconds: fromMs + moreMs } },
          }),
        }
        const get = { get: { call: 'collection.get', with: { name: 'n', id: 'i' } } }
        const handler = handled ? { do: [{ handle: { set: { handled: true } } }] } : {}
        const flow = flowOf([{ a: { try: [get], catch: { retry, ...handler } } }])
        const fails = { fails: { type: 't', status: 500, title: 'T', detail: 'd' } }
        const answers = { 'collection.get': { next: [...Array(failures).fill(fails), 'fine'] } }
        const { result, calls, waits, sleeps } = await trace(flow, { input: null, answers, random })

        const wanted: number[] = []
        let spentMs = 0
        for (let number = 1; number <= failures; number++) {
          const factor = backoff === 'linear' ? number : backoff === 'exponential' ? 2 ** (number - 1) : 1
          const waitMs = Math.round(delayMs * factor + (jitterMs ? fromMs + random * moreMs : 0))
          if (number > (count ?? 99) || spentMs + waitMs > (limitMs ?? 1e9)) break
          wanted.push(waitMs)
          spentMs += waitMs
        }
        const isFine = wanted.length === failures
        expect(waits).toEqual(wanted)
        expect(calls).toHaveLength(wanted.length + 1)
        expect(
          sleeps.every((text, at) => text.startsWith(`a: retry ${at + 1}${count ? ` of ${count}` : ''} in `)),
        ).toBe(true)
        if (isFine) expect(result).toMatchObject({ output: 'fine' })
        else if (handled) expect(result).toMatchObject({ output: { handled: true } })
        else expect(result).toMatchObject({ error: { type: 't', instance: '/do/0/a/try/0/get' } })
      },
    ),
    { seed: 20_260_304, numRuns: repeated(50, 200) },
  )
})
