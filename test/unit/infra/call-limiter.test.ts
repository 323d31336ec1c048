/** The bound of requests to Temporal: who waits, who is served next, who is refused, and how it follows the server. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { CallLimiter } from '../../../src/infra/temporal/call-limiter.ts'

const LIMITS = {
  atOnce: { min: 2, max: 8 },
  tenantShare: 0.5,
  waitMs: 1_000,
  startsPerRequest: 2,
  pauseMs: { min: 100, max: 400 },
}
const OVERLOADED = new Error('overloaded')
const settled = () => vi.advanceTimersByTimeAsync(0)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A server whose answers the test gives. */
class Server {
  /** Tenants of the requests under way, in the order of their arrival. */
  readonly open: string[] = []
  readonly #answers: ((error?: Error) => void)[] = []
  readonly limiter: CallLimiter

  constructor(refusesStarts = true) {
    this.limiter = new CallLimiter(refusesStarts, LIMITS)
  }

  /** @returns how the request ends */
  async send(tenantId: string): Promise<{ outcome: string }> {
    const sent = { outcome: 'waits' }
    const isOverload = (error: unknown) => error === OVERLOADED
    const work = () =>
      new Promise<void>((resolve, reject) => {
        this.open.push(tenantId)
        this.#answers.push((error) => (error === undefined ? resolve() : reject(error)))
      })
    void this.limiter.run({ tenantId, isOverload }, work).then(
      () => {
        sent.outcome = 'answered'
      },
      (error: Error & { code?: string }) => {
        sent.outcome = error.code ?? error.message
      },
    )
    await settled()
    return sent
  }

  /** Answers the first request that is open. */
  async answer(error?: Error): Promise<void> {
    this.open.shift()
    this.#answers.shift()?.(error)
    await settled()
  }

  async sendMany(tenantId: string, count: number) {
    return Promise.all(Array.from({ length: count }, () => this.send(tenantId)))
  }
}

test('one tenant floods: it has half of the requests, another one is served at once, and the flood waits in its order', async () => {
  const server = new Server()
  await server.sendMany('flood', 20)
  expect(server.open).toEqual(Array(4).fill('flood'))
  await server.send('other')
  expect(server.open).toEqual([...Array(4).fill('flood'), 'other'])
  await server.answer()
  expect(server.open.filter((one) => one === 'flood')).toHaveLength(4)
})

test('no slot for as long as a caller waits: `overloaded`, and the request is not made', async () => {
  const server = new Server()
  const sent = await server.sendMany('a', 5)
  await vi.advanceTimersByTimeAsync(LIMITS.waitMs)
  expect(sent.map(({ outcome }) => outcome)).toEqual([...Array(4).fill('waits'), 'overloaded'])
  expect(server.open).toHaveLength(4)
})

test('the server is overloaded: the bound halves once for what was under way together, down to its least, and grows with answers', async () => {
  const server = new Server()
  const bounds: number[] = []
  for (let round = 0; round < 4; round++) {
    await Promise.all(['a', 'b'].map((tenant) => server.sendMany(tenant, 4)))
    const together = server.limiter.atOnce
    for (let nth = 0; nth < together; nth++) await server.answer(OVERLOADED)
    bounds.push(server.limiter.atOnce)
    while (server.open.length > 0) await server.answer(OVERLOADED)
    await vi.advanceTimersByTimeAsync(LIMITS.waitMs)
    while (server.open.length > 0) await server.answer(OVERLOADED)
    await vi.advanceTimersByTimeAsync(LIMITS.waitMs)
  }
  expect(bounds[0]).toBe(4)
  expect(bounds.at(-1)).toBe(LIMITS.atOnce.min)
  // About as many answers as the bound has requests add one.
  let answers = 0
  while (server.limiter.atOnce < LIMITS.atOnce.max) {
    await server.send('a')
    await server.answer()
    answers += 1
  }
  expect(answers).toBeGreaterThan(20)
  expect(answers).toBeLessThan(40)
  await server.send('a')
  await server.answer(new Error('not found'))
  expect(server.limiter.atOnce).toBe(LIMITS.atOnce.max)
})

test('a server that refuses at once: requests of all tenants follow after pauses that double, until one is answered', async () => {
  const server = new Server()
  const refusals: number[] = []
  let isRefusing = true
  const isOverload = () => true
  const ask = async (tenantId: string): Promise<void> => {
    const work = () => {
      refusals.push(Date.now())
      return isRefusing ? Promise.reject(OVERLOADED) : Promise.resolve()
    }
    await server.limiter.run({ tenantId, isOverload }, work).catch(() => (isRefusing ? ask(tenantId) : {}))
  }
  for (const tenant of ['a', 'b', 'c', 'd']) void ask(tenant)
  await vi.advanceTimersByTimeAsync(10_000)
  const late = refusals.filter((ms) => ms > Date.now() - 4_000)
  // Two at a time, every 400 ms.
  expect(late.length).toBeLessThanOrEqual(22)
  expect(late.length).toBeGreaterThan(10)
  isRefusing = false
  const before = refusals.length
  await vi.advanceTimersByTimeAsync(1_000)
  expect(refusals.length).toBe(before + 4)
})

test('starts: a tenant with too many under way is refused with Retry-After, others are not; a worker refuses none', () => {
  const { limiter } = new Server()
  const reserved = Array.from({ length: 8 }, () => limiter.reserveStart('flood'))
  const refusal = { code: 'rate_limited', headers: { 'retry-after': '2' } }
  expect(() => limiter.reserveStart('flood')).toThrow(expect.objectContaining(refusal))
  limiter.reserveStart('other')
  reserved[0]?.end()
  reserved[0]?.end()
  limiter.reserveStart('flood')
  expect(() => limiter.reserveStart('flood')).toThrow(expect.objectContaining(refusal))
  const worker = new Server(false).limiter
  for (let nth = 0; nth < 100; nth++) worker.reserveStart('flood')
})

test('start that waits for something else: its place is free meanwhile, and it has one again afterwards, also beyond the bound', async () => {
  const { limiter } = new Server()
  const [first] = Array.from({ length: 8 }, () => limiter.reserveStart('flood'))
  const refused = expect.objectContaining({ code: 'rate_limited' })
  for (const end of [() => 'a slot', () => Promise.reject(OVERLOADED)]) {
    const waiting = Promise.withResolvers<void>()
    const turn = first?.yieldWhile(() => waiting.promise.then(end)).catch((error) => error)
    const second = limiter.reserveStart('flood')
    expect(() => limiter.reserveStart('flood')).toThrow(refused)
    waiting.resolve()
    expect(['a slot', OVERLOADED]).toContain(await turn)
    second.end()
    expect(() => limiter.reserveStart('flood')).toThrow(refused)
  }
  first?.end()
  limiter.reserveStart('flood')
})
