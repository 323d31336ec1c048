/** Bounds of the arguments of calls: errors name size and limit; a message is full only for the workflow task that sends it. */

import { afterEach, describe, expect, test, vi } from 'vitest'
import type { CallRequest } from '../../../flows-dsl/machine/driver.ts'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import { INFRA_LIMITS } from '../../../src/infra/limits.ts'
import { InFlightBudget, MessageBudget } from '../../../src/workflows/flow/calls.ts'

const STEP = { pointer: '/do/0/ask' } as CallRequest['step']

test('arguments of one call or of all running calls above a limit: refused, with their size and the limit', () => {
  const { stepInputBytesMax, callsInFlightBytesMax: callsUnderWayBytesMax } = FLOW_LIMITS
  const budget = new InFlightBudget()
  expect(() => budget.reserve(stepInputBytesMax + 1, STEP)).toThrow(
    `The arguments of the call have ${stepInputBytesMax + 1} bytes; at most ${stepInputBytesMax} are allowed.`,
  )
  const releases = Array.from({ length: callsUnderWayBytesMax / stepInputBytesMax }, () =>
    budget.reserve(stepInputBytesMax, STEP),
  )
  expect(() => budget.reserve(1, STEP)).toThrow(
    `The arguments of all running calls have ${callsUnderWayBytesMax + 1} bytes`,
  )
  releases[0]?.()
  expect(budget.reserve(stepInputBytesMax, STEP)).toBeTypeOf('function')
})

describe('message of a workflow task', () => {
  afterEach(() => vi.useRealTimers())

  test('full: has room again in the next task, but not for what a signal has sent there before', () => {
    const { callsSentBytesMax } = FLOW_LIMITS
    const { payloads } = INFRA_LIMITS
    vi.useFakeTimers({ now: 1_000 })
    const clock = { taskMs: 1_000 }
    const budget = new MessageBudget(clock)
    const fill = (max = 1_000) => {
      let count = 0
      while (count < max && budget.reserve(payloads.inlineBytesMax)) count += 1
      return count
    }
    const room = Math.floor(callsSentBytesMax / payloads.inlineBytesMax)
    expect(fill(room - 5)).toBe(room - 5)
    vi.setSystemTime(2_000)
    expect(fill()).toBe(5)
    clock.taskMs = 2_000
    expect(fill()).toBe(room - 5)
    vi.setSystemTime(3_000)
    clock.taskMs = 3_000
    expect(fill()).toBe(room)
  })
})
