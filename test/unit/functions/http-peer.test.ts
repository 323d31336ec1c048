/** The exchange between API process and worker: what is under way is bounded, and a loss ends it. The transport is a queue in memory. */

import { expect, test, vi } from 'vitest'
import { Problem } from '../../../src/core/problem.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import type { Channels } from '../../../src/features/functions/channels.ts'
import { StreamConnection } from '../../../src/features/functions/http/peer.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'

const { answerMs, chunkBytesMax, windowChunks } = FUNCTION_LIMITS.http
const REF = { tenantId: 'ten_1' as TenantId, workspaceId: 'ws_1' as WorkspaceId }

type Receiver = Parameters<Channels['open']>[1]

class Wire implements Channels {
  readonly receivers = new Map<string, Receiver>()
  chunkBytes = 0
  /** Messages that are not delivered, by number. */
  readonly dropped = new Set<number>()
  #sent = 0

  get size(): number {
    return this.receivers.size
  }

  async open(channel: string, receiver: Receiver): Promise<() => void> {
    this.receivers.set(channel, receiver)
    return () => this.receivers.delete(channel)
  }

  async send(channel: string, bytes: Buffer): Promise<void> {
    const receiver = this.receivers.get(channel)
    if (bytes[0] === 0x63) this.chunkBytes += bytes.length - 5
    if (!this.dropped.has(this.#sent++)) receiver?.message(bytes)
  }

  close(): void {
    for (const { lost } of this.receivers.values()) lost()
  }
}

async function peers() {
  const wire = new Wire()
  const [client, code] = [
    await StreamConnection.open(wire, REF, 'run_1', 'client'),
    await StreamConnection.open(wire, REF, 'run_1', 'code'),
  ]
  return { wire, client, code }
}

const settled = () => new Promise((done) => setImmediate(done))

test('a reader that is slow: the sender waits with at most a window of chunks under way', async () => {
  const { wire, client, code } = await peers()
  const bytes = Buffer.alloc(20 * chunkBytesMax, 'x')
  const writing = code.write(bytes).then(() => code.end())
  await settled()
  expect(wire.chunkBytes).toBe(0)
  let read = 0
  for await (const chunk of client.chunks()) {
    read += chunk.length
    await settled()
    expect(wire.chunkBytes - read).toBeLessThanOrEqual(windowChunks * chunkBytesMax)
  }
  await writing
  expect(read).toBe(bytes.length)
})

test('many exchanges of one process: each asks for less', async () => {
  const { wire, client, code } = await peers()
  for (let n = 0; n < 1_000; n++) wire.receivers.set(`other-${n}`, { message: () => {}, lost: () => {} })
  void code.write(Buffer.alloc(20 * chunkBytesMax)).catch(() => {})
  await client.chunks().next()
  await settled()
  expect(wire.chunkBytes).toBe(chunkBytesMax)
  client.close()
  code.close()
})

test('a message that is lost: ends the exchange', async () => {
  const { wire, client, code } = await peers()
  const chunks = client.chunks()
  const first = chunks.next()
  await settled()
  wire.dropped.add(1)
  await code.sendHead({ status: 200, headers: [] }).catch(() => {})
  await code.end()
  await expect(first).rejects.toMatchObject({ code: 'dependency_unavailable' })
  await expect(client.head()).rejects.toMatchObject({ code: 'dependency_unavailable' })
})

test('a lost connection, and an end that gives up: each waiting caller gets the reason', async () => {
  const lost = await peers()
  const waiting = lost.code.awaitCredit()
  lost.wire.close()
  await expect(waiting).rejects.toMatchObject({ code: 'dependency_unavailable' })
  const { client, code } = await peers()
  const read = code.chunks().next()
  await client.abort(new Problem('run_cut_off', { detail: 'gone' }))
  await expect(read).rejects.toMatchObject({ code: 'run_cut_off', detail: 'gone' })
  expect(code.failed.reason).toMatchObject({ code: 'run_cut_off' })
})

test('an end that does not answer: the other learns it, after a while', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  try {
    const { client, code } = await peers()
    expect(await code.isThere()).toBe(true)
    client.close()
    const isThere = code.isThere()
    await vi.advanceTimersByTimeAsync(answerMs)
    expect(await isThere).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})

test('an end that gives up before the other has begun: tells it when it begins', async () => {
  const wire = new Wire()
  const client = await StreamConnection.open(wire, REF, 'run_1', 'client')
  expect(await client.abort(new Problem('api_key_revoked'))).toBe(false)
  const code = await StreamConnection.open(wire, REF, 'run_1', 'code')
  await expect(code.isThere()).rejects.toMatchObject({ code: 'api_key_revoked' })
})
