/**
 * Inline HTTP calls of workflows: shares of tenants, concurrency, and the time for which slow servers are
 * excluded.
 */

import { ApplicationFailure } from '@temporalio/common'
import { expect, test } from 'vitest'
import { InlineCalls } from '../../../src/activities/http/inline-calls.ts'
import { Problem } from '../../../src/core/problem.ts'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'

const { callsMax: atOnce } = FLOW_LIMITS.inlineCalls
const { min: slowMinMs, max: slowMaxMs } = FLOW_LIMITS.inlineCalls.slowMs
const A = { tenantId: 'ten_a', workspaceId: 'ws_a' } as const
const B = { tenantId: 'ten_b', workspaceId: 'ws_b' } as const
const to = (endpoint: string) => ({ function: 'http', arguments: { endpoint } })
const DONE = { output: 'answer', took_ms: 0 }
const answered = async () => 'answer'
const late = async () => {
  throw new Problem('upstream_unavailable')
}

test('inline calls: a tenant uses up its share: others keep theirs, and the next call waits briefly for a slot', async () => {
  const calls = new InlineCalls(() => 0)
  const ends: (() => void)[] = []
  const lasting = () => new Promise<string>((done) => ends.push(() => done('answer')))
  const many = Array.from({ length: atOnce }, () => calls.attempt(A, to('http://a/x'), lasting))
  const inVain = calls.attempt(A, to('http://b/x'), answered)
  expect(await calls.attempt(B, to('http://a/x'), answered)).toEqual(DONE)
  expect(await inVain).toBeNull()
  const next = calls.attempt(A, to('http://b/x'), answered)
  ends[0]?.()
  expect(await next).toEqual(DONE)
  for (const end of ends) end()
  expect(await Promise.all(many)).toEqual(Array(atOnce).fill(DONE))
})

test('slow server: is excluded for a while, for this tenant and server', async () => {
  let now = 0
  const calls = new InlineCalls(() => now)
  expect(await calls.attempt(A, to('http://a/x'), late)).toBeNull()
  expect(await calls.attempt(A, to('http://a/y?z'), answered)).toBeNull()
  expect(await calls.attempt(A, to('http://a:81/y'), answered)).toEqual(DONE)
  expect(await calls.attempt(B, to('http://a/x'), answered)).toEqual(DONE)
  now += slowMinMs
  expect(await calls.attempt(A, to('http://a/x'), answered)).toEqual(DONE)
})

test('slow server: slow again: the exclusion grows; fast again: it is reset', async () => {
  let now = 0
  const calls = new InlineCalls(() => now)
  const callInline = async (answer: () => Promise<string>) => {
    let tries = 0
    const counted = () => {
      tries += 1
      return answer()
    }
    // Concurrent calls are one attempt: a period in which all of them were slow counts once.
    await Promise.all([1, 2, 3].map(() => calls.attempt(A, to('http://a/'), counted)))
    return tries > 0
  }
  const rests: number[] = []
  for (let began = now; rests.length < 10; now += slowMinMs / 4) {
    if (!(await callInline(late))) continue
    rests.push(now - began)
    began = now
  }
  const doubled = Array.from({ length: 9 }, (_, nth) => Math.min(slowMinMs * 2 ** nth, slowMaxMs))
  expect(rests).toEqual([0, ...doubled])
  now += slowMaxMs
  expect(await callInline(answered)).toBe(true)
  expect(await callInline(late)).toBe(true)
  now += slowMinMs
  expect(await callInline(answered)).toBe(true)
})

test('inline call: final error: is thrown and releases its slot; an error of the platform excludes no server', async () => {
  const calls = new InlineCalls(() => 0)
  const refused = async () => {
    throw new Problem('egress_refused')
  }
  const faulted = async () => {
    throw ApplicationFailure.nonRetryable('answered 503')
  }
  const away = async () => {
    throw new Problem('dependency_unavailable')
  }
  for (let nth = 0; nth < 2 * atOnce; nth++) {
    await expect(calls.attempt(A, to('http://a/'), refused)).rejects.toThrow()
    await expect(calls.attempt(A, to('http://a/'), faulted)).rejects.toThrow('answered 503')
    expect(await calls.attempt(A, to('http://a/'), away)).toBeNull()
  }
  expect(await calls.attempt(A, to('http://a/'), answered)).toEqual(DONE)
})
