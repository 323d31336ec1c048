// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Executions with costly expressions pause to yield the thread; events in the meantime are kept in order.
 */

import { describe, expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { Driver, type Effects } from '../../../flows-dsl/machine/driver.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import { compiled, INFO, World } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n"
const COSTLY = "{ costly: { set: '${ reduce range(200000) as $i ($n; .) }' } }"
const settled = () => new Promise((done) => setImmediate(done))

/** An environment whose pauses and waits end when the test says so. */
class Pausing extends World {
  readonly asleep: (() => void)[] = []
  readonly pauses: (() => void)[] = []

  override sleep(): Promise<void> {
    return new Promise((done) => this.asleep.push(done))
  }

  pause(): Promise<void> {
    return new Promise((done) => this.pauses.push(done))
  }

  /** All sleeping tasks wake at the same time. */
  wake(): void {
    for (const done of this.asleep.splice(0)) done()
  }
}

const wide = (tasks = COSTLY) =>
  compiled(`${HEAD}  - all:
      for: { each: n, in: '\${ [range(6)] }', concurrency: 6 }
      do: [ { rest: { wait: { seconds: 1 } } }, ${tasks} ]
`)

test('many costly turns at once: the execution pauses between them, and ends with the same result', async () => {
  const world = new Pausing()
  const result = Driver.start(wide(), {}, world, INFO).run()
  await settled()
  world.wake()
  let pauses = 0
  for (let end: Json | undefined; end === undefined; ) {
    await settled()
    const completed = world.events.filter(
      ({ step, phase }) => step.name === 'costly' && phase === 'completed',
    )
    if (completed.length === 6) end = completed.length
    else {
      expect(completed.length).toBeGreaterThan(pauses)
      expect(world.pauses).toHaveLength(1)
      pauses += 1
      world.pauses.shift()?.()
    }
  }
  expect(pauses).toBeGreaterThan(1)
  expect(await result).toEqual({ status: 'completed', output: [0, 1, 2, 3, 4, 5] })
})

test('cheap turns: the execution never pauses', async () => {
  const world = new Pausing()
  const result = Driver.start(wide('{ say: { set: "${ $n }" } }'), {}, world, INFO).run()
  await settled()
  world.wake()
  expect(await result).toEqual({ status: 'completed', output: [0, 1, 2, 3, 4, 5] })
  expect(world.pauses).toEqual([])
})

test('environment without pauses: the execution continues at once', async () => {
  const world: Effects = Object.assign(new Pausing(), { pause: undefined, sleep: async () => {} })
  const result = await Driver.start(wide(), {}, world, INFO).run()
  expect(result).toEqual({ status: 'completed', output: [0, 1, 2, 3, 4, 5] })
})

test('cancelled while paused: the execution ends, and earlier events change nothing', async () => {
  const world = new Pausing()
  const drive = Driver.start(wide(), {}, world, INFO)
  const result = drive.run()
  await settled()
  world.wake()
  await settled()
  expect(world.pauses).toHaveLength(1)
  drive.cancel()
  expect(await result).toEqual({ status: 'cancelled' })
  const { length } = world.events
  world.pauses.shift()?.()
  await settled()
  expect(world.events).toHaveLength(length)
})

describe('thousands of cheap tasks in one turn', () => {
  const SLICE = 1_000
  const many = (count: number, more = '') =>
    compiled(`${HEAD}  - all:
      for: { each: n, in: '\${ [range(${count})] }', concurrency: 100 }
      do: [ { say: { set: "\${ $n }" } } ]
      output: { as: length }
${more}`)

  /** Runs to the end. @returns the result, and the number of tasks between two pauses */
  async function sliced(world: Pausing, result: Promise<unknown>) {
    const slices: number[] = []
    let end: unknown
    void result.then((value) => {
      end = value
    })
    let before = 0
    for (;;) {
      await settled()
      const entered = world.events.filter(({ phase }) => phase === 'started').length
      slices.push(entered - before)
      before = entered
      if (end !== undefined) return { end, slices }
      expect(world.pauses).toHaveLength(1)
      world.pauses.shift()?.()
    }
  }

  test('execution: pauses after each thousand, and ends with the same result', async () => {
    const world = new Pausing()
    const { end, slices } = await sliced(world, Driver.start(many(4_500), {}, world, INFO).run())
    expect(end).toEqual({ status: 'completed', output: 4_500 })
    expect(slices).toEqual([SLICE, SLICE, SLICE, SLICE, 501])
  })

  test('too many without a call or a wait: the pauses do not count as waits', async () => {
    const world = new Pausing()
    const { end, slices } = await sliced(
      world,
      Driver.start(many(20_000, 'limits: { tasks: 100000 }\n'), {}, world, INFO).run(),
    )
    expect(end).toMatchObject({
      status: 'faulted',
      error: { detail: expect.stringContaining('10000 tasks without') },
    })
    expect(Math.max(...slices)).toBe(SLICE)
  })

  test('cancelled in the midst: nothing more is entered', async () => {
    const world = new Pausing()
    const driver = Driver.start(many(4_500), {}, world, INFO)
    const result = driver.run()
    await settled()
    driver.cancel()
    const { end, slices } = await sliced(world, result)
    expect([end, slices]).toEqual([{ status: 'cancelled' }, [SLICE]])
  })

  test('cancelled in each pause before and while handlers begin: what has not begun never does, and `finally` runs once', async () => {
    for (let count = SLICE - 4; count <= SLICE; count += 1) {
      const fails = `  - bad: { raise: { error: { type: runtime, status: 500 } } }
onError: [ { alarm: { set: { n: 1 } } }, { later: { wait: { seconds: 1 } } } ]
finally: [ { tidy: { set: { n: 2 } } } ]`
      const world = new Pausing()
      const driver = Driver.start(many(count, fails), {}, world, INFO)
      const result = driver.run()
      await settled()
      expect(world.pauses).toHaveLength(1)
      driver.cancel()
      const before = world.events.length
      const { end } = await sliced(world, result)
      const begun = world.events
        .slice(before)
        .flatMap(({ phase, step }) => (phase === 'started' ? [step.name] : []))
      expect([count, begun]).toEqual([count, ['tidy']])
      expect(end).toMatchObject({ status: expect.stringMatching(/^(cancelled|faulted)$/) })
    }
  })

  test('environment without pauses, and simulation: the same result', async () => {
    const world: Effects = Object.assign(new Pausing(), { pause: undefined })
    expect(await Driver.start(many(4_500), {}, world, INFO).run()).toMatchObject({ output: 4_500 })
    expect(simulate(many(4_500), {})).toMatchObject({ status: 'completed', output: 4_500 })
  })
})
