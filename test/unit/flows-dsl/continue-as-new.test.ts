// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Executions that continue as new: nothing is lost or started twice, and shared values are transferred once.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Json } from '../../../flows-dsl/ir.ts'
import { Driver, type Snapshot } from '../../../flows-dsl/machine/driver.ts'
import { type FlowState, pack, unpack } from '../../../flows-dsl/machine/state.ts'
import { compiled, INFO, World } from '../../conformance/flows/scenario.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n"

/** An environment in which approvals are never answered by themselves. */
class Waiting extends World {
  override wait(): Promise<Json> {
    return new Promise(() => {})
  }
}

async function moved(drive: Driver): Promise<Snapshot> {
  const driven = await drive.run()
  if (driven.status !== 'continued') throw new Error('It has not moved.')
  return JSON.parse(JSON.stringify(driven.snapshot))
}

test('any JSON: is unchanged after a transfer', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const state = { input: value } as unknown as FlowState
      expect(unpack(JSON.parse(JSON.stringify(pack(state))))).toEqual(JSON.parse(JSON.stringify(state)))
    }),
    { seed: 8, numRuns: 500 },
  )
})

test('shared value: is transferred once and is shared again afterwards', () => {
  const shared = { many: Array.from({ length: 100 }, (_, n) => n) }
  const state = {
    frames: { 1: { data: shared }, 2: { data: shared } },
    input: shared,
  } as unknown as FlowState
  const rows = pack(state)
  expect(JSON.stringify(rows).match(/99/g)).toHaveLength(1)
  const back = unpack(JSON.parse(JSON.stringify(rows))) as unknown as {
    frames: Record<string, { data: unknown }>
    input: unknown
  }
  expect(back.frames[1]?.data).toBe(back.input)
  expect(back.frames[2]?.data).toBe(back.input)
  expect(back.input).toEqual(shared)
})

test('transferred state: is independent of the original', () => {
  const state = { input: { a: [1] } } as unknown as FlowState
  const rows = pack(state)
  ;(state.input as { a: number[] }).a.push(2)
  expect(unpack(rows).input).toEqual({ a: [1] })
})

test('a thousand concurrent items: are transferred in less than a megabyte', async () => {
  const ir = compiled(
    `${HEAD}  - all:\n      for: { each: n, in: '\${ [range(1000)] }', concurrency: 1000 }\n      do: [ { ask: { approve: { approvers: [ada] } } }, { say: { set: { n: '\${ $n }' } } } ]\n`,
  )
  const world = Object.assign(new Waiting(), { shouldContinueAsNew: () => true })
  const drive = Driver.start(ir, {}, world, { ...INFO, started_by: 'somebody' })
  const snapshot = moved(drive)
  drive.event({ type: 't', source: 's', id: '1' })
  expect(JSON.stringify(await snapshot).length).toBeLessThan(1_000_000)
})

test('signal received before continuing: has its effects once', async () => {
  const ir = compiled(
    `${HEAD}  - ask: { approve: { approvers: [ada] } }\n  - put: { call: collection.create, with: { name: c, document: {} } }\n`,
  )
  const there = Object.assign(new Waiting(), { shouldContinueAsNew: () => true })
  const first = Driver.start(ir, {}, there, { ...INFO, started_by: 'somebody' })
  const snapshot = moved(first)
  first.event({ type: 't', source: 's', id: '1' })
  const here = new Waiting()
  const second = Driver.resume(ir, await snapshot, here)
  expect(second.decide('/do/0/ask#0', { by: 'ada', approved: true })).toBeUndefined()
  expect(await here.until(second.run())).toMatchObject({ status: 'completed' })
  expect(here.calls).toHaveLength(1)
})

test('time in which nothing could proceed: extends the limits of other work only', async () => {
  const ir = compiled(`${HEAD}  - wait: { wait: PT10S, timeout: { after: PT30S } }\n`)
  const world = Object.assign(new World(), { shouldContinueAsNew: () => true })
  const drive = Driver.start(ir, {}, world, INFO)
  const snapshot = moved(drive)
  drive.extendTimeouts(5_000)
  drive.event({ type: 't', source: 's', id: '1' })
  const { frames } = unpack(await snapshot)
  const sleeps = Object.values(frames).flatMap((frame) =>
    frame.is === 'effect' && frame.effect.do === 'sleep' ? [frame.effect] : [],
  )
  const spans = sleeps.map(({ limits, untilMs }) => [limits, untilMs - world.nowMs()])
  expect(spans.toSorted()).toEqual([
    [false, 10_000],
    [true, 35_000],
  ])
})
