/** Slots for password hashes: turns between networks and tenants, and bounds of each. */

import { expect, test } from 'vitest'
import { PasswordSlots } from '../../../src/features/identity/accounts/password-slots.ts'
import { ISSUER_LIMITS } from '../../../src/features/identity/limits.ts'

const settled = () => new Promise((done) => setImmediate(done))

test('slots: one network has as many under way as it may: refused at once, another tenant has the next turn', async () => {
  const slots = new PasswordSlots(1)
  const order: string[] = []
  const hashes: (() => void)[] = []
  const ask = (network: string, realm: string) =>
    slots.acquire({ network, realm }).then((release) => {
      order.push(realm)
      hashes.push(release)
    })
  const waiting: Promise<void>[] = []
  for (let n = 0; n < ISSUER_LIMITS.passwordHashesPendingMax; n++) waiting.push(ask('n', 'a'))
  await expect(ask('n', 'a')).rejects.toMatchObject({ code: 'rate_limited' })
  const other = ask('n', 'b')
  await settled()
  for (let n = 0; n <= ISSUER_LIMITS.passwordHashesPendingMax; n++) {
    hashes[n]?.()
    await settled()
  }
  await Promise.all([...waiting, other])
  expect(order.indexOf('b')).toBeLessThanOrEqual(2)
  expect(order).toHaveLength(ISSUER_LIMITS.passwordHashesPendingMax + 1)
})

test('slots: as many wait as may, each from another network and tenant: one more is refused at once, until one has its turn', async () => {
  const slots = new PasswordSlots(2)
  const ask = (n: number) => slots.acquire({ network: `n${n}`, realm: `r${n}` })
  const running = await Promise.all([ask(-1), ask(-2)])
  let ended = 0
  const waiting = Array.from({ length: ISSUER_LIMITS.passwordHashesWaitingMax }, async (_, n) => {
    const release = await ask(n)
    ended += 1
    release()
  })
  await expect(ask(1_000)).rejects.toMatchObject({ code: 'rate_limited', status: 429 })
  expect(ended).toBe(0)
  running[0]?.()
  await Promise.all(waiting)
  const next = await ask(1_000)
  next()
})

test('slots: a link is in use: refused until the request before has ended', async () => {
  const slots = new PasswordSlots(2)
  const payer = { network: 'n', realm: 'r', link: 'l' }
  const release = await slots.acquire(payer)
  await expect(slots.acquire(payer)).rejects.toMatchObject({ code: 'state_conflict' })
  release()
  const again = await slots.acquire(payer)
  again()
})

const FULL = ISSUER_LIMITS.passwordHashesWaitingMax / ISSUER_LIMITS.passwordHashesPendingMax

test.each([
  ['16 networks, each in a tenant of its own', (n: number) => ({ network: `n${n}`, realm: `r${n}` })],
  ['one network in 16 tenants', (n: number) => ({ network: 'n', realm: `r${n}` })],
  ['16 networks in one tenant', (n: number) => ({ network: `n${n}`, realm: 'r' })],
])(
  'slots: as many wait as may, of %s: one of those gives way to another network and tenant',
  async (_, payer) => {
    const slots = new PasswordSlots(1)
    const running = await slots.acquire({ network: 'first', realm: 'first' })
    const waiting = Array.from({ length: FULL * ISSUER_LIMITS.passwordHashesPendingMax }, async (_one, n) => {
      const release = await slots.acquire(payer(n % FULL))
      release()
    })
    const ended = Promise.allSettled(waiting)
    const other = slots.acquire({ network: 'other', realm: 'other' })
    await settled()
    running()
    const release = await other
    release()
    const refused = (await ended).flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
    expect(refused).toEqual(['rate_limited'])
  },
)
