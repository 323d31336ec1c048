/**
 * API keys: malformed texts are rejected without a database lookup, and verified keys are cached until they
 * change.
 */

import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, expect, inject, test } from 'vitest'
import { keyKind, makeKey } from '../../../src/access/authentication/credentials.ts'
import { openAuthServices } from '../../../src/app/auth-services.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { TtlCache } from '../../../src/infra/ttl-cache.ts'

/** Nothing listens on this port: every database query is answered with `dependency_unavailable`. */
const nowhere = { DATABASE_APP_URL: 'postgres://tenon_app@127.0.0.1:1/tenon' }
const config = parseConfig({ ...inject('tenon').env, ...nowhere })
const { platform, parts } = openPlatform(config, openLog('silent', 'test'))
const { auth } = openAuthServices(config, parts)
afterAll(() => platform.close())

const codeOf = (text: string) =>
  auth.authenticate({ kind: 'api_key', text }).then(
    () => 'admitted',
    (error: { code: string }) => error.code,
  )

const kind = fc.constantFrom('anon' as const, 'service' as const)
/** The last line stands for letters that never occur in a key. */
const letter = fc.constantFrom(...'abcXYZ019_-', '\u0000', 'é')

test('API key: well formed: is looked up in the database', async () => {
  expect(await codeOf(makeKey('anon'))).toBe('dependency_unavailable')
})

test('API key: one letter changed, lost or doubled: is rejected without a lookup', async () => {
  await fc.assert(
    fc.asyncProperty(
      kind,
      fc.nat(200),
      letter,
      fc.constantFrom('change', 'lose', 'double'),
      async (of, at, by, how) => {
        const key = makeKey(of)
        const place = at % key.length
        const put = { change: by, lose: '', double: `${key[place]}${key[place]}` }[how]
        const broken = key.slice(0, place) + put + key.slice(place + 1)
        fc.pre(broken !== key)
        expect(await codeOf(broken)).toBe('api_key_invalid')
      },
    ),
    { numRuns: 500 },
  )
})

test('API key: two letters swapped, truncated or of another kind: is rejected without a lookup', async () => {
  await fc.assert(
    fc.asyncProperty(kind, fc.nat(200), async (of, at) => {
      const key = makeKey(of)
      const place = at % (key.length - 1)
      const swapped = key.slice(0, place) + key[place + 1] + key[place] + key.slice(place + 2)
      const other = key.replace(of, of === 'anon' ? 'service' : 'anon')
      for (const broken of [swapped, key.slice(0, place), other, key.toUpperCase(), ` ${key}`, `${key}\n`])
        if (broken !== key) expect(await codeOf(broken)).toBe('api_key_invalid')
    }),
    { numRuns: 200 },
  )
})

test('API key: any other text: is rejected without a lookup', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 120 }), kind, (text, of) => {
      for (const tried of [text, `svc_${of}_${text}`]) expect(keyKind(tried)).toBeUndefined()
    }),
  )
  // Well formed, with a wrong checksum.
  const secret = randomBytes(32).toString('base64url')
  expect(keyKind(`svc_anon_${secret}00000000`)).toBeUndefined()
  expect(keyKind(`svc_anon_${'x'.repeat(100_000)}`)).toBeUndefined()
})

test('key cache: a read that began before a change: its result is not cached', async () => {
  const cache = new TtlCache<string>()
  let answer = (_value: string) => {}
  const read = () =>
    new Promise<string>((done) => {
      answer = done
    })
  const reading = cache.load('key', read)
  cache.forget((value) => value === 'old')
  answer('old')
  expect(await reading).toBe('old')
  expect(cache.get('key')).toBeUndefined()
  expect(await cache.load('key', async () => 'new')).toBe('new')
  expect(await cache.load('key', () => Promise.reject(new Error('read again')))).toBe('new')
  cache.forget((value) => value === 'new')
  expect(cache.get('key')).toBeUndefined()
})
