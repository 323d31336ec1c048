/** Both bucket stores compared with a naive model: same decisions in the same order for any clock. */

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import {
  type BucketCharge,
  decide,
  type Limit,
  limitOf,
  MemoryBuckets,
} from '../../../src/access/rate-limit/memory-buckets.ts'
import { ValkeyBuckets } from '../../../src/access/rate-limit/valkey-buckets.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const url = inject('tenon').env['REDIS_URL'] ?? ''
const shared = new ValkeyBuckets(url, () => {})
const redis = new Redis(url)
afterAll(() => {
  shared.close()
  redis.disconnect()
})

/** Model of a bucket: how much is taken, and when that was true. */
class Model {
  readonly #spent = new Map<string, { us: number; atUs: number }>()

  /** @returns what was taken from each before, or undefined if the model would have refused it */
  charge(charges: readonly BucketCharge[], nowUs: number): { passed: boolean; aheadUs: number[] } {
    const aheadUs = charges.map(({ bucket }) => {
      const { us, atUs } = this.#spent.get(bucket) ?? { us: 0, atUs: nowUs }
      return Math.max(us - (nowUs - atUs), 0)
    })
    const requests = charges.map(
      ({ limit }, at) => (limit.capacityUs - (aheadUs[at] ?? 0)) / limit.intervalUs,
    )
    const passed = requests.every((left) => left >= 1)
    if (passed) {
      for (const [at, { bucket, limit }] of charges.entries())
        this.#spent.set(bucket, { us: (aheadUs[at] ?? 0) + limit.intervalUs, atUs: nowUs })
    }
    return { passed, aheadUs }
  }
}

const limits: Limit[] = [
  limitOf('key', { perMinute: 60_000, burst: 3 }),
  limitOf('tenant', { perMinute: 7_000, burst: 10 }),
  limitOf('address', { perMinute: 600, burst: 1 }),
]
const someBuckets = fc.subarray([0, 1, 2], { minLength: 1 })
const chargesOf = (indices: readonly number[], run: string): BucketCharge[] =>
  indices.flatMap((index) => {
    const limit = limits[index]
    return limit === undefined ? [] : [{ bucket: `tenon:{test-${run}}:rate:${index}`, limit }]
  })

test('memory buckets: any clock steps: same decisions as the model', () => {
  const step = fc.record({ later: fc.integer({ min: 0, max: 300_000 }), indices: someBuckets })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let nowUs = 1_000_000
      const ledger = new MemoryBuckets(() => nowUs)
      const model = new Model()
      for (const { later, indices } of steps) {
        nowUs += later
        const charges = chargesOf(indices, 'local')
        const { passed, aheadUs } = model.charge(charges, nowUs)
        const found = ledger.charge(charges)
        expect(found).toEqual(aheadUs)
        expect(decide(charges, found).refused === undefined).toBe(passed)
      }
    }),
  )
})

test('Valkey buckets: with the server clock: same decisions as the model', async () => {
  const steps = fc.array(someBuckets, { minLength: 20, maxLength: 80 })
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const run = randomUUID()
      const model = new Model()
      for (const indices of all) {
        const charges = chargesOf(indices, run)
        const found = await shared.charge(charges, true)
        if (found === undefined) throw new Error('Valkey does not answer')
        const { passed, aheadUs } = model.charge(charges, found.nowUs)
        expect(found.tatOffsetsUs).toEqual(aheadUs)
        expect(decide(charges, found.tatOffsetsUs).refused === undefined).toBe(passed)
      }
    }),
    { numRuns: 25 },
  )
})

test('Valkey buckets: many concurrent requests: each sees the requests before it, few round trips', async () => {
  const bursts = fc.array(fc.record({ size: fc.integer({ min: 1, max: 40 }), indices: someBuckets }), {
    maxLength: 8,
  })
  await fc.assert(
    fc.asyncProperty(bursts, async (all) => {
      const run = randomUUID()
      const model = new Model()
      for (const { size, indices } of all) {
        const charges = chargesOf(indices, run)
        const found = await Promise.all(Array.from({ length: size }, () => shared.charge(charges, true)))
        const times = found.map((one) => one?.nowUs ?? 0)
        expect(new Set(times).size).toBeLessThanOrEqual(2)
        for (const [at, one] of found.entries()) {
          const { passed, aheadUs } = model.charge(charges, times[at] ?? 0)
          expect(one?.tatOffsetsUs).toEqual(aheadUs)
          expect(decide(charges, one?.tatOffsetsUs ?? []).refused === undefined).toBe(passed)
        }
      }
    }),
    { numRuns: 25 },
  )
})

describe('token leases', () => {
  const other = new ValkeyBuckets(url, () => {})
  afterAll(() => other.close())
  /** Refills one token in six seconds: constant for the duration of a test. */
  const still = (burst: number) => limitOf('key', { perMinute: 10, burst })
  /** Tokens that two processes may hold in advance when another request is refused; returned shortly after. */
  const AHEAD = (2 * 256) / ACCESS_LIMITS.rateAdvance.burstParts
  const bucketOf = (run: string) => `tenon:{test-${run}}:rate:ahead`
  const takenFrom = async (bucket: string, { intervalUs }: Limit) => {
    const [seconds = 0, us = 0] = (await redis.time()).map(Number)
    return (Number(await redis.get(bucket)) - seconds * 1_000_000 - us) / intervalUs
  }

  test('token lease: two processes: never more than the bucket, unused tokens are returned', async () => {
    const crowd = fc.record({ size: fc.integer({ min: 1, max: 60 }), at: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(crowd, { minLength: 4, maxLength: 12 }), async (bursts) => {
        const charge = { bucket: bucketOf(randomUUID()), limit: still(256) }
        let requests = 0
        let passed = 0
        // On an overloaded machine it is unknown whether those were charged.
        let unanswered = 0
        const ask = async ({ size, at }: { size: number; at: boolean }) => {
          const ledger = at ? shared : other
          const found = await Promise.all(Array.from({ length: size }, () => ledger.charge([charge], false)))
          requests += size
          for (const one of found) {
            if (one === undefined) unanswered += 1
            else if (!decide([charge], one.tatOffsetsUs).refused) passed += 1
          }
        }
        for (const each of bursts) await ask(each)
        expect(passed).toBeLessThanOrEqual(256 + 1)
        expect(passed).toBeGreaterThanOrEqual(Math.min(requests, 256) - unanswered - AHEAD)
        const lease = await vi.waitUntil(
          async () => {
            const now = await takenFrom(charge.bucket, charge.limit)
            return now <= passed + unanswered && now > passed - 1 ? now : undefined
          },
          { timeout: 10_000 },
        )
        expect(lease).toBeGreaterThan(0)
      }),
      { numRuns: 15 },
    )
  })

  test('token lease: frequent caller: few round trips; rare caller: one per request, nothing in advance', async () => {
    const busy = { bucket: bucketOf(randomUUID()), limit: still(64_000) }
    const quiet = { bucket: bucketOf(randomUUID()), limit: still(64_000) }
    const sent = vi.spyOn(Redis.prototype, 'sendCommand')
    onTestFinished(() => sent.mockRestore())
    const tripsFor = ({ bucket }: BucketCharge) =>
      sent.mock.calls.filter(([command]) => command.name === 'evalsha' && command.args.includes(bucket))
        .length
    const lane = async () => {
      for (let n = 0; n < 100; n++) {
        const found = await shared.charge([busy], false)
        expect(decide([busy], found?.tatOffsetsUs ?? []).refused).toBe(undefined)
        await new Promise((soon) => setImmediate(soon))
      }
    }
    await Promise.all(Array.from({ length: 16 }, lane))
    for (let n = 0; n < 5; n++) await shared.charge([quiet], false)
    expect(tripsFor(quiet)).toBe(5)
    expect(tripsFor(busy)).toBeGreaterThan(0)
    expect(tripsFor(busy)).toBeLessThan(70)
    expect(await takenFrom(quiet.bucket, quiet.limit)).toBeLessThanOrEqual(5)
  })

  test('token lease: requests of one process: each sees the requests before it', async () => {
    const charge = { bucket: bucketOf(randomUUID()), limit: still(6_400) }
    const before: number[] = []
    for (let crowd = 0; crowd < 20; crowd++) {
      const found = await Promise.all(Array.from({ length: 3 }, () => shared.charge([charge], false)))
      before.push(...found.map((one) => Math.ceil((one?.tatOffsetsUs[0] ?? 0) / charge.limit.intervalUs)))
    }
    expect(before).toEqual(before.map((_, at) => at))
  })
})

test('bucket: full again: key expires', async () => {
  const charge = {
    bucket: `tenon:{test-${randomUUID()}}:rate:slow`,
    limit: limitOf('key', { perMinute: 6, burst: 3 }),
  }
  await shared.charge([charge], true)
  const ms = await redis.pttl(charge.bucket)
  expect(ms).toBeGreaterThan(5_000)
  expect(ms).toBeLessThanOrEqual(10_000)
})

test('bucket: clock set back: refused no longer than the refill time', async () => {
  const [charge] = chargesOf([0], randomUUID())
  if (charge === undefined) throw new Error('no charge')
  const hourUs = 3_600_000_000
  await redis.set(charge.bucket, Date.now() * 1_000 + hourUs)
  const found = await shared.charge([charge], true)
  const decision = decide([charge], found?.tatOffsetsUs ?? [])
  expect(decision.refused?.headers['retry-after']).toBe('1')
})

test('Valkey buckets: server accepts commands but never replies: one request per second asks it', async () => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const ledger = new ValkeyBuckets(`redis://127.0.0.1:${port}`, () => {})
  const elapsedMs = stopwatch()
  for (let n = 0; n < 40; n++) expect(await ledger.charge(chargesOf([0], 'silent'), false)).toBe(undefined)
  // Each would wait for 75 ms.
  expect(elapsedMs()).toBeLessThan(1_500)
  ledger.close()
  silent.close()
})

test('memory buckets: ever new keys: bounded', () => {
  const nowUs = 0
  const ledger = new MemoryBuckets(() => nowUs)
  const [first] = chargesOf([2], 'first')
  if (first === undefined) throw new Error('no charge')
  ledger.charge([first])
  expect(ledger.peek([first])).toEqual([first.limit.intervalUs])
  for (let n = 0; n < 50_000; n++) ledger.charge([{ bucket: String(n), limit: first.limit }])
  expect(ledger.peek([first])).toEqual([0])
})
