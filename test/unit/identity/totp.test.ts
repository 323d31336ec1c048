/** Time-based codes against the vectors of RFC 6238, and their tolerance. */

import { Secret } from 'otpauth'
import { expect, test } from 'vitest'
import {
  newRecoveryCodes,
  newTotpSecret,
  normalizeCode,
  recoveryDigest,
  totpLink,
  totpStep,
} from '../../../src/features/identity/factors/totp.ts'

const SECRET = Secret.fromLatin1('12345678901234567890').base32

test.each([
  [59, '287082'],
  [1_111_111_109, '081804'],
  [1_111_111_111, '050471'],
  [1_234_567_890, '005924'],
  [2_000_000_000, '279037'],
  [20_000_000_000, '353130'],
])('RFC 6238 appendix B – time %i – accepts the last six digits', (seconds, code) => {
  expect(totpStep(SECRET, code, seconds * 1_000)).toBe(Math.floor(seconds / 30))
})

test('code – of the neighbouring steps – is accepted with its own step; further away it is not', () => {
  const steps = [-60, -30, -1, 0, 29, 30, 31, 60].map((ahead) =>
    totpStep(SECRET, '005924', (1_234_567_890 + ahead) * 1_000),
  )
  const own = 41_152_263
  expect(steps).toEqual([undefined, own, own, own, own, own, own, undefined])
})

test.each(['', '12345', '1234567', 'abcdef', '\uff10\uff10\uff15\uff19\uff12\uff14'])(
  'code %s – of another form – is refused',
  (code) => {
    expect(totpStep(SECRET, code, 1_234_567_890_000)).toBeUndefined()
  },
)

test('secret and link – made anew – have 160 bits and the parameters that apps expect', () => {
  const secret = newTotpSecret()
  expect(secret).toMatch(/^[A-Z2-7]{32}$/)
  const link = new URL(totpLink(secret, 'Shop: Mine & yours', 'ada+1@example.test'))
  expect([link.protocol, link.host]).toEqual(['otpauth:', 'totp'])
  expect(decodeURIComponent(link.pathname)).toBe('/Shop  Mine & yours:ada+1@example.test')
  expect(Object.fromEntries(link.searchParams)).toEqual({
    ...{ secret, issuer: 'Shop  Mine & yours', algorithm: 'SHA1', digits: '6', period: '30' },
  })
})

test('recovery codes – made anew – differ, have 50 bits, and digests for one user under one key', () => {
  const codes = newRecoveryCodes()
  expect(new Set(codes).size).toBe(10)
  expect(codes.every((code) => /^[a-z2-7]{10}$/.test(code))).toBe(true)
  expect(normalizeCode(' ABCDE-fg234 ')).toBe('abcdefg234')
  const digest = (key: string, user: string) => recoveryDigest(key, user, 'abcdefg234')
  expect(new Set([digest('k', 'a'), digest('l', 'a'), digest('k', 'b')]).size).toBe(3)
})
