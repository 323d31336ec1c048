/** Redaction of audit entries: secrets are found by name and by form, and other values stay unchanged. */

import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type AuditEvent, auditRowOf, digestOf } from '../../../src/access/audit/entry.ts'
import { AuditThrottle } from '../../../src/access/audit/throttle.ts'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { canonical } from '../../../src/core/json.ts'
import { holdsSecret, REDACTED, redact, redactText } from '../../../src/core/redact.ts'

const part = fc.stringMatching(/^[A-Za-z0-9_-]{10,40}$/)
const secret = fc.oneof(
  fc.constantFrom('anon' as const, 'service' as const).map((kind) => makeKey(kind)),
  fc.tuple(part, part, part).map(([a, b, c]) => `eyJ${a}.eyJ${b}.${c}`),
  part.map((text) => `Bearer ${text}`),
  part.map((text) => `-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----`),
)

test('text that looks like a secret: is removed from any surrounding text', () => {
  fc.assert(
    fc.property(fc.string(), secret, fc.string(), (before, inside, after) => {
      const text = redactText(`${before} ${inside} ${after}`)
      expect(text).not.toContain(inside)
      expect(text).toContain(REDACTED)
      expect(holdsSecret(inside)).toBe(true)
    }),
  )
})

test('secret within a value: is removed at any location, including property names', () => {
  fc.assert(
    fc.property(fc.jsonValue(), secret, part, (value, inside, name) => {
      const held = { [name]: [value, { deep: inside }], [`x ${inside}`]: 1 }
      expect(JSON.stringify(redact(held))).not.toContain(JSON.stringify(inside).slice(1, -1))
    }),
  )
})

test.each([
  'password',
  'Client-Secret',
  'client_secret',
  'accessToken',
  'X-Api-Key',
  'authorization',
  'private key',
])('property named %s: is redacted whatever its value', (name) => {
  expect(redact({ a: { [name]: 'hunter2' }, b: [{ [name]: { c: 1 } }] })).toEqual({
    a: { [name]: REDACTED },
    b: [{ [name]: REDACTED }],
  })
})

test('ordinary values: stay unchanged', () => {
  const value = {
    id: 'key_01k5',
    key: 'a/b.txt',
    tokens: 3,
    secretary: 'Eve',
    last4: '9f2c',
    prefix: 'svc_anon_',
  }
  expect(redact(value)).toEqual(value)
  expect(redact({ password: null })).toEqual({ password: null })
})

const deed: AuditEvent = {
  owner: { tenantId: 'ten_a', workspaceId: 'ws_a' },
  requestId: 'r',
  actor: { subject: 's', role: 'service', kind: 'api_key' },
  operation: 'collection.create',
  target: '/v1/x',
  outcome: 'done',
  status: 201,
  code: null,
  before: null,
  after: digestOf({ a: 1 }),
}

test('audit entry: any texts: is written as canonical JSON', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (target, subject) => {
      const { text } = auditRowOf({ ...deed, target, actor: { ...deed.actor, subject } }, 0)
      expect(text).toBe(canonical(JSON.parse(text)))
      expect(text).not.toContain('\\u0000')
    }),
  )
})

test('digest: two states differ in secrets only: is the same', () => {
  const key = (text: string) => digestOf({ id: 'key_a', key: text, client_secret: text })
  expect(key(makeKey('anon'))).toBe(key(makeKey('anon')))
  expect(digestOf({ id: 'key_a' })).not.toBe(digestOf({ id: 'key_b' }))
})

test('digest: is that of the redacted state, whether or not anything was redacted', () => {
  const name = fc.constantFrom('a', 'pass-word', 'Token', 'private key', 'x\n')
  const text = fc.oneof(
    fc.string(),
    fc.tuple(fc.string(), secret).map(([before, inside]) => `${before}\n${inside}`),
  )
  const state = fc.dictionary(name, fc.oneof(text, fc.dictionary(name, text)))
  fc.assert(
    fc.property(state, (value) => {
      const sha256 = createHash('sha256').update(canonical(redact(value)))
      expect(digestOf(value)).toBe(sha256.digest('hex'))
    }),
  )
})

test('denials of a minute: the first are entries, the rest one entry with a count', () => {
  const throttle = new AuditThrottle()
  const refusal = (address: string): AuditEvent => ({ ...deed, outcome: 'denied', address })
  const admitted = (address: string) =>
    Array.from({ length: 100 }, () => throttle.admit(refusal(address))).filter(Boolean).length
  expect([admitted('a'), admitted('b')]).toEqual([
    ACCESS_LIMITS.auditAlikePerMinuteMax,
    ACCESS_LIMITS.auditAlikePerMinuteMax,
  ])
  const rest = 100 - ACCESS_LIMITS.auditAlikePerMinuteMax
  const [a, b] = throttle.takeSummaries()
  expect([a?.count, a?.address, b?.count, b?.address]).toEqual([rest, 'a', rest, 'b'])
  expect(a).toMatchObject({ operation: 'audit.summary', outcome: 'denied', owner: { tenantId: 'ten_a' } })
  expect(throttle.takeSummaries()).toEqual([])
  expect(throttle.admit(refusal('a'))).toBe(true)
})

test('denials of very many addresses: the number of entries is bounded', () => {
  const throttle = new AuditThrottle()
  const addresses = Array.from({ length: 5 * ACCESS_LIMITS.auditAddressesMax }, (_none, n) => `address ${n}`)
  const entries = addresses.filter((address) => throttle.admit({ ...deed, outcome: 'denied', address }))
  expect(entries.length).toBeLessThanOrEqual(
    ACCESS_LIMITS.auditAddressesMax + ACCESS_LIMITS.auditAlikePerMinuteMax,
  )
  const counted = throttle.takeSummaries().reduce((sum, { count = 1 }) => sum + count, 0)
  expect(counted + entries.length).toBe(addresses.length)
})
