/** The bytes of JSON that the calls of one invocation may have together. */

import { expect, test } from 'vitest'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { HostCalls } from '../../../src/features/functions/sandbox/host-calls.ts'
import type { Invocation } from '../../../src/features/functions/sandbox/invocation.ts'

const { callBytesMax, jsonBytesMax } = FUNCTION_LIMITS.sandbox

/** A call whose JSON has so many bytes. */
function callOf(bytes: number): Buffer {
  const empty = JSON.stringify({ method: 'm', args: [''] })
  return Buffer.from(JSON.stringify({ method: 'm', args: ['x'.repeat(bytes - empty.length)] }))
}

test('calls up to the budget are made; those above it get an error without being made', async () => {
  let made = 0
  const host = {
    call: async () => {
      made += 1
      return null
    },
  }
  let replied = (_reply: [kind: string, json: string]) => {}
  const calls = new HostCalls({ host, kind: 'call' } as unknown as Invocation, async (kind, _id, json) =>
    replied([kind, json.toString()]),
  )
  const take = (json: Buffer, id: number) =>
    new Promise<[string, string]>((resolve) => {
      replied = resolve
      expect(calls.take({ kind: 'call', id, json, bytes: Buffer.alloc(0) })).toBe(true)
    })
  const [largest, count] = [callOf(callBytesMax), jsonBytesMax / callBytesMax]
  for (let id = 1; id <= count; id++) expect(await take(largest, id)).toEqual(['value', 'null'])
  const [kind, json] = await take(callOf(100), count + 1)
  expect([kind, JSON.parse(json)]).toMatchObject(['error', { code: 'quota_exceeded' }])
  expect(made).toBe(count)
})
