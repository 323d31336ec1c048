/**
 * Rate settings, the buckets that requests are charged to, and the networks that addresses are counted as.
 */

import { expect, test } from 'vitest'
import { Rates } from '../../../src/access/rate-limit/limiter.ts'
import { limitOf, networkOf, rateOf } from '../../../src/access/rate-limit/memory-buckets.ts'
import { parseRate } from '../../../src/core/units.ts'
import { parseConfig } from '../../../src/infra/config.ts'

const NEEDED = {
  TENON_MASTER_KEY: `${'A'.repeat(43)}=`,
  DATABASE_APP_URL: 'postgres://x',
  TEMPORAL_ADDRESS: 'x:1',
  S3_ENDPOINT: 'http://x',
  S3_ACCESS_KEY_ID: 'x',
  S3_SECRET_ACCESS_KEY: 'x',
  REDIS_URL: 'redis://x',
}
const rates = new Rates(parseConfig(NEEDED))
const KEY = {
  kind: 'api_key' as const,
  seen: 'a key',
  subject: 'key_1',
  tenantId: 'ten_1' as const,
  workspaceId: 'ws_1' as const,
  roles: ['service' as const],
}

test.each([
  ['300/min', { perMinute: 300, burst: 300 }],
  ['300/min burst 30', { perMinute: 300, burst: 30 }],
])('rate %s: is parsed', (text, rate) => {
  expect(parseRate(text)).toEqual(rate)
})

test.each(['300', '0/min', '300/s', '300/min burst 0', '300/min burst', '-1/min', '99999999/min', '1.5/min'])(
  'rate %s: is rejected',
  (text) => {
    expect(() => parseConfig({ ...NEEDED, TENON_RATE_ANON: text })).toThrow('TENON_RATE_ANON')
  },
)

test.each(['10.0.0.1', '10.0.0.0/8,::1', 'loopback', 'fd00::/8,uniquelocal'])(
  'trusted proxies %s: are accepted',
  (list) => {
    expect(parseConfig({ ...NEEDED, TENON_TRUSTED_PROXIES: list }).TENON_TRUSTED_PROXIES).toBe(list)
  },
)

test.each(['*', 'true', 'proxy.example', '10.0.0.1, 10.0.0.2'])(
  'trusted proxies %s: are rejected',
  (list) => {
    expect(() => parseConfig({ ...NEEDED, TENON_TRUSTED_PROXIES: list })).toThrow('TENON_TRUSTED_PROXIES')
  },
)

test.each([
  [5, 5],
  [30, 30],
  [100, 30],
  [300, 30],
  [3_000, 300],
])('key limit of %i per minute: burst is %i beside a default of 300 with burst 30', (perMinute, burst) => {
  expect(rateOf(perMinute, { perMinute: 300, burst: 30 })).toEqual({ perMinute, burst })
})

test('rate policy: states the bucket size and the seconds that it takes to fill', () => {
  expect(limitOf('key', { perMinute: 300, burst: 30 }).policy).toBe('"key";q=30;w=6')
  expect(limitOf('key', { perMinute: 1_200, burst: 1_200 }).policy).toBe('"key";q=1200;w=60')
  expect(limitOf('key', { perMinute: 7, burst: 1 }).policy).toBe('"key";q=1;w=9')
})

test('limit of a key: replaces the default of its kind and no other limit', () => {
  const own = rates.ofPrincipal({ ...KEY, rateLimit: 5 }, 'service', '::/64')
  expect(own.map(({ limit }) => limit.policy)).toEqual(['"key";q=5;w=60', '"tenant";q=1000;w=10'])
  const usual = rates.ofPrincipal(KEY, 'service', '::/64')
  expect(usual.map(({ limit }) => limit.policy)).toEqual(['"key";q=300;w=15', '"tenant";q=1000;w=10'])
  expect(usual.map(({ bucket }) => bucket)).toEqual(own.map(({ bucket }) => bucket))
})

test('bucket name: contains the tenant, and no text of a caller makes it equal to another', () => {
  const names = (tenantId: `ten_${string}`, subject: string, kind: 'api_key' | 'token' | 'gateway') =>
    (['anon', 'service', 'tenant_admin'] as const).flatMap((role) =>
      rates
        .ofPrincipal({ ...KEY, kind, tenantId, subject }, role, '203.0.113.1')
        .filter(({ limit }) => limit.counted !== 'tenant')
        .map(({ bucket }) => bucket),
    )
  for (const kind of ['api_key', 'token', 'gateway'] as const) {
    const [ours, theirs] = [names('ten_1', 'x', kind), names('ten_10', 'x', kind)]
    expect(ours.every((name) => name.startsWith('tenon:{ten_1}:rate:'))).toBe(true)
    expect(ours.filter((name) => theirs.includes(name))).toEqual([])
  }
  const crafted = names('ten_1', '}:rate:tenant', 'token')
  expect(crafted.join()).not.toContain('}:rate:tenant')
  const [byKey, byToken] = [names('ten_1', 'key_1', 'api_key'), names('ten_1', 'key_1', 'token')]
  expect(byKey.filter((name) => byToken.includes(name))).toEqual([])
})

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['2001:0DB8:0000:0000:ffff::', '2001:db8:0:0::/64'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['::1', '0:0:0:0::/64'],
  ['1::', '1:0:0:0::/64'],
  ['64:ff9b::203.0.113.7', '64:ff9b:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::ffff:cb00:7107', '203.0.113.7'],
  ['203.0.113.7:50123', '203.0.113.7'],
  ['[2001:db8::1]:50123', '2001:db8:0:0::/64'],
])('client address %s: is counted as %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test('default rates of callers of data: at most a quarter of a minute comes at once, and the rest evenly', () => {
  const config = parseConfig(NEEDED)
  const { TENON_RATE_ADMIN: _ofPeople, TENON_RATE_AUTH_FAILURES: _failures, ...others } = config
  const names = Object.keys(others).filter((name) => name.startsWith('TENON_RATE_'))
  expect(names.length).toBeGreaterThan(7)
  for (const name of names) {
    const { perMinute, burst } = parseRate(String(config[name as keyof typeof config]))
    expect(burst, name).toBeLessThanOrEqual(perMinute / 4)
  }
})
