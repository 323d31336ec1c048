/** Schemes of webhook senders: published examples, other implementations, malformed and altered deliveries, clock skew. */

import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { WebhookVerification } from '../../../flows-dsl/ir.ts'
import { verifyDelivery } from '../../../src/features/runs/triggers/webhook-schemes.ts'

const URL_ = 'https://tenon.example.com/v1/flows/workspaces/ws/triggers/trg'
const NOW = 1_800_000_000_000

interface Case {
  readonly verify: WebhookVerification
  readonly secret: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly url?: string
  readonly nowMs?: number
}

const ask = ({ verify, secret, headers, body, url = URL_, nowMs = NOW }: Case, secrets = ['other', secret]) =>
  verifyDelivery(verify, { headers, body: Buffer.from(body), url }, secrets, nowMs)

const hex = (algorithm: string, secret: string, text: string) =>
  createHmac(algorithm, secret).update(text).digest('hex')
const base64 = (algorithm: string, secret: string, text: string) =>
  createHmac(algorithm, secret).update(text).digest('base64')

/** docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation". */
const GITHUB: Case = {
  verify: { scheme: 'github' },
  secret: "It's a Secret to Everybody",
  body: 'Hello, World!',
  headers: {
    'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
  },
}

/** docs.slack.dev, "Verifying requests from Slack". */
const SLACK: Case = {
  verify: { scheme: 'slack' },
  secret: '8f742231b10e8888abcd99yyyzzz85a5',
  nowMs: 1_531_420_618_000,
  body: 'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
  headers: {
    'x-slack-request-timestamp': '1531420618',
    'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
  },
}

/** Tests of Twilio's own library (twilio-node, webhooks.spec), for a form. */
const TWILIO: Case = {
  verify: { scheme: 'twilio' },
  secret: '12345',
  url: 'https://mycompany.com/myapp.php?foo=1&bar=2',
  body: new URLSearchParams({
    CallSid: 'CA1234567890ABCDE',
    Digits: '1234',
    From: '+14158675309',
    To: '+18005551212',
    Caller: '+14158675309',
  }).toString(),
  headers: {
    'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
    'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=',
  },
}

/** Stripe and Shopify publish no example with its secret: computed from the formulas of their documentation. */
const STRIPE_BODY = '{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event"}'
const STRIPE: Case = {
  verify: { scheme: 'stripe' },
  secret: 'whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH',
  nowMs: 1_492_774_577_000,
  body: STRIPE_BODY,
  headers: {
    'stripe-signature': `t=1492774577,v1=${hex('sha256', 'whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH', `1492774577.${STRIPE_BODY}`)},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39`,
  },
}
const SHOPIFY: Case = {
  verify: { scheme: 'shopify' },
  secret: 'hush',
  body: '{"id":788032119674292922}',
  headers: { 'x-shopify-hmac-sha256': base64('sha256', 'hush', '{"id":788032119674292922}') },
}
const HMAC: Case = {
  verify: { scheme: 'hmac', header: 'x-sign', algorithm: 'sha512', encoding: 'hex', prefix: 'v2:' },
  secret: 'generic secret',
  body: '{"n":1}',
  headers: { 'x-sign': `v2:${hex('sha512', 'generic secret', '{"n":1}').toUpperCase()}` },
}
const BEARER: Case = {
  verify: { scheme: 'bearer' },
  secret: 'whsec_abc',
  body: '{}',
  headers: { authorization: 'Bearer whsec_abc' },
}
const SECRET_URL: Case = {
  verify: { scheme: 'url' },
  secret: 'whsec_a+b/c=',
  body: '{}',
  headers: {},
  url: `${URL_}?token=${encodeURIComponent('whsec_a+b/c=')}&x=1`,
}

const ALL = { GITHUB, SLACK, TWILIO, STRIPE, SHOPIFY, HMAC, BEARER, SECRET_URL }
const SIGNED = { GITHUB, SLACK, TWILIO, STRIPE, SHOPIFY, HMAC }

describe.each(Object.entries(ALL))('%s', (_name, one) => {
  test('example: accepted with the right secret, also as the second; refused with another, an empty and none', () => {
    expect(ask(one)).toMatchObject({ id: expect.stringMatching(/^[!-~]{1,200}$/) })
    expect(ask(one, ['other'])).toBeUndefined()
    expect(ask(one, [''])).toBeUndefined()
    expect(ask(one, [])).toBeUndefined()
  })

  test('without its headers and URL: refused', () => {
    expect(ask({ ...one, headers: {}, url: URL_ })).toBeUndefined()
  })

  test('header that is empty, cut, prefixed, or a list: refused', () => {
    for (const [name, value] of Object.entries(one.headers)) {
      if (name === 'content-type' || name === 'x-slack-request-timestamp') continue
      const isStripe = name === 'stripe-signature'
      for (const other of ['', isStripe ? 't=1492774577' : value.slice(0, -1), `x${value}`, [value]])
        expect(
          ask({ ...one, headers: { ...one.headers, [name]: other as string } }),
          `${other}`,
        ).toBeUndefined()
    }
  })
})

test.each(Object.entries(SIGNED))('%s: another body: refused', (_name, one) => {
  expect(ask({ ...one, body: `${one.body} ` })).toBeUndefined()
  expect(ask({ ...one, body: '' })).toBeUndefined()
})

test.each(Object.entries(SIGNED))('%s: replay with other unsigned headers: has the same id', (_name, one) => {
  const forged = { 'x-github-delivery': 'other', 'webhook-id': 'other', 'idempotency-key': 'other' }
  expect(ask({ ...one, headers: { ...one.headers, ...forged } })?.id).toBe(ask(one)?.id)
})

test.each([
  ['STRIPE', STRIPE],
  ['SLACK', SLACK],
])('%s: clock skew: 300 s is accepted in both directions, a millisecond more is refused', (_name, one) => {
  const at = one.nowMs ?? 0
  for (const skewMs of [300_000, -300_000]) expect(ask({ ...one, nowMs: at + skewMs })).toBeDefined()
  for (const skewMs of [300_001, -300_001]) expect(ask({ ...one, nowMs: at + skewMs })).toBeUndefined()
})

test('Stripe: one of several v1 signatures matches; the id is that of the event; another time is refused', () => {
  const signature = STRIPE.headers['stripe-signature'] ?? ''
  const two = signature.replace(',v1=', ',v1=00,v1=')
  expect(ask({ ...STRIPE, headers: { 'stripe-signature': two } })?.id).toBe('evt_1NG8Du2eZvKYlo2CUI79vXWy')
  const later = signature.replace('t=1492774577', 't=1492774578')
  expect(ask({ ...STRIPE, headers: { 'stripe-signature': later } })).toBeUndefined()
  const v0 = `t=1492774577,v0=${/v1=(\w+)/.exec(signature)?.[1]}`
  expect(ask({ ...STRIPE, headers: { 'stripe-signature': v0 } })).toBeUndefined()
})

test('Twilio: parameters in another order are accepted; another URL, a changed value and a JSON body with a wrong hash are refused', () => {
  const reversed = new URLSearchParams([...new URLSearchParams(TWILIO.body)].toReversed()).toString()
  expect(ask({ ...TWILIO, body: reversed })).toBeDefined()
  expect(ask({ ...TWILIO, url: `${TWILIO.url}&x=1` })).toBeUndefined()
  const json = '{"a":1}'
  const sha = '015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862'
  const url = `https://mycompany.com/hook?bodySHA256=${sha}`
  const headers = { 'content-type': 'application/json', 'x-twilio-signature': base64('sha1', '12345', url) }
  expect(ask({ ...TWILIO, url, body: json, headers })).toBeDefined()
  expect(ask({ ...TWILIO, url, body: '{"a":2}', headers })).toBeUndefined()
})

test('signature of the body: headers that it does not cover change no id, so a captured delivery is no other one', () => {
  const named = {
    'x-delivery': 'd2',
    'x-event-id': 'd2',
    'webhook-id': 'd2',
    'x-github-delivery': 'd2',
    'idempotency-key': 'd2',
  }
  for (const delivery of [GITHUB, SHOPIFY, TWILIO, HMAC]) {
    const { id } = ask(delivery) ?? {}
    expect(id).toMatch(/^sha256:/)
    expect(ask({ ...delivery, headers: { ...delivery.headers, ...named } })?.id).toBe(id)
  }
  expect(ask({ ...HMAC, headers: { 'x-sign': (HMAC.headers['x-sign'] ?? '').slice(3) } })).toBeUndefined()
})

test('token: each delivery is another one, unless the sender gives it an id', () => {
  expect(ask(BEARER)?.id).not.toBe(ask(BEARER)?.id)
  expect(ask({ ...BEARER, headers: { ...BEARER.headers, 'idempotency-key': 'k1' } })?.id).toBe('k1')
})
