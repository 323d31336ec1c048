/**
 * Webhook signatures: the vectors of Standard Webhooks, both limits of the clock difference, and malformed
 * signatures.
 */

import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import {
  type Delivery,
  makeSecret,
  sign,
  verify,
} from '../../../src/features/runs/triggers/standard-webhooks.ts'

/** Vectors from the libraries of the Standard Webhooks project. */
const VECTOR = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  seconds: 1_614_265_330,
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const AT = VECTOR.seconds * 1_000

type SignedBody = Pick<Delivery, 'headers' | 'body'>

const delivery = (more: Record<string, unknown> = {}, body: string | Buffer = VECTOR.body): SignedBody => ({
  headers: {
    'webhook-id': VECTOR.id,
    'webhook-timestamp': String(VECTOR.seconds),
    'webhook-signature': VECTOR.signature,
    ...more,
  },
  body: Buffer.from(body as string),
})
const ask = (one: SignedBody, nowMs = AT, secrets = [VECTOR.secret]) => verify(one, secrets, nowMs)

test('published vector: signs and verifies as published', () => {
  const { secret, id, seconds, body, signature } = VECTOR
  expect(sign(secret, id, seconds, Buffer.from(body))).toBe(signature)
  expect(ask(delivery())).toEqual({ id, sentMs: AT })
})

test('several signatures: one of them matches, beside other versions and secrets: is accepted', () => {
  const other = makeSecret()
  const theirs = sign(other, VECTOR.id, VECTOR.seconds, Buffer.from(VECTOR.body))
  expect(ask(delivery({ 'webhook-signature': `v1a,xyz ${theirs} ${VECTOR.signature}` }))).toBeDefined()
  expect(ask(delivery({ 'webhook-signature': theirs }))).toBeUndefined()
  expect(ask(delivery({ 'webhook-signature': theirs }), AT, [VECTOR.secret, other])).toBeDefined()
})

test.each([
  [0, true],
  [300_000, true],
  [300_001, false],
  [-300_000, true],
  [-300_001, false],
  [Number.MAX_SAFE_INTEGER, false],
])('clock %i ms ahead of the sender: accepted is %s', (aheadMs, isTaken) => {
  expect(ask(delivery(), AT + aheadMs) !== undefined).toBe(isTaken)
})

test.each([
  ['another id', delivery({ 'webhook-id': 'msg_other' })],
  ['another time', delivery({ 'webhook-timestamp': String(VECTOR.seconds + 1) })],
  ['another body', delivery({}, `${VECTOR.body} `)],
  ['no id', delivery({ 'webhook-id': undefined })],
  ['no time', delivery({ 'webhook-timestamp': undefined })],
  ['no signature', delivery({ 'webhook-signature': undefined })],
  ['an empty signature', delivery({ 'webhook-signature': '' })],
  ['a signature of nothing', delivery({ 'webhook-signature': 'v1,' })],
  ['a signature without its version', delivery({ 'webhook-signature': VECTOR.signature.slice(3) })],
  ['a signature of another version', delivery({ 'webhook-signature': VECTOR.signature.replace('v1', 'v2') })],
  ['a cut signature', delivery({ 'webhook-signature': VECTOR.signature.slice(0, -1) })],
  ['two headers', delivery({ 'webhook-id': [VECTOR.id, VECTOR.id] })],
  ['a time with a sign', delivery({ 'webhook-timestamp': `+${VECTOR.seconds}` })],
  ['a time in milliseconds', delivery({ 'webhook-timestamp': `${VECTOR.seconds}.0` })],
  ['a time that is none', delivery({ 'webhook-timestamp': 'NaN' })],
])('delivery with %s: is rejected', (_what, one) => {
  expect(ask(one)).toBeUndefined()
})

test('malformed signature or missing secret: nothing is accepted', () => {
  expect(ask(delivery(), AT, [])).toBeUndefined()
  const zeros = `v1,${Buffer.alloc(32).toString('base64')}`
  expect(ask(delivery({ 'webhook-signature': zeros }))).toBeUndefined()
})

test('signed content: id, time and body are divided in another way: the signature does not match', () => {
  const secret = makeSecret()
  const now = 1_700_000_000
  const signed = sign(secret, 'a', now, Buffer.from('1700000001.{}'))
  const headers = {
    'webhook-id': `a.${now}`,
    'webhook-timestamp': '1700000001',
    'webhook-signature': signed,
  }
  expect(ask({ headers, body: Buffer.from('{}') }, now * 1_000, [secret])).toBeUndefined()
})

test('body: bytes that are no UTF-8: are signed and verified unchanged', () => {
  const secret = makeSecret()
  const body = Buffer.from([0xff, 0xfe, 0, 0x80])
  const signature = sign(secret, 'm', VECTOR.seconds, body)
  const headers = { 'webhook-id': 'm', 'webhook-timestamp': String(VECTOR.seconds) }
  expect(ask({ headers: { ...headers, 'webhook-signature': signature }, body }, AT, [secret])).toBeDefined()
})

test('new secret: has 32 random bytes', () => {
  const secrets = Array.from({ length: 100 }, makeSecret)
  expect(new Set(secrets).size).toBe(100)
  for (const secret of secrets) expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(32)
  expect(secrets[0]).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
})

test('library of the Standard Webhooks project: each side verifies the other, and neither accepts another body', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/)
  fc.assert(
    fc.property(
      id,
      fc.string({ unit: 'grapheme' }),
      fc.integer({ min: -290, max: 290 }),
      (id, body, lateS) => {
        const secret = makeSecret()
        const library = new Webhook(secret)
        const seconds = Math.floor(Date.now() / 1_000) + lateS
        const headers = { 'webhook-id': id, 'webhook-timestamp': String(seconds) }
        const theirs = { ...headers, 'webhook-signature': library.sign(id, new Date(seconds * 1_000), body) }
        const ours = { ...headers, 'webhook-signature': sign(secret, id, seconds, Buffer.from(body)) }
        expect(verify({ headers: theirs, body: Buffer.from(body) }, [secret], Date.now())).toBeDefined()
        expect(
          verify({ headers: theirs, body: Buffer.from(`${body}.`) }, [secret], Date.now()),
        ).toBeUndefined()
        expect(() => library.verify(body, ours, { jsonParse: false })).not.toThrow()
        expect(() => library.verify(`${body}.`, ours)).toThrow('signature')
      },
    ),
    { numRuns: 200 },
  )
})
