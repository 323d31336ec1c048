/** Checks that Temporal is reached with TLS whenever a setting says so, and that no credential is sent without TLS unless a setting says so. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ConfigError, parseConfig } from '../../../src/infra/config.ts'
import { readTemporal } from '../../../src/infra/temporal/connection.ts'
import { makeAuthority } from '../../support/servers/authority.ts'

const NEEDED = {
  TENON_MASTER_KEY: `${'A'.repeat(43)}=`,
  DATABASE_APP_URL: 'postgres://x',
  S3_ENDPOINT: 'https://x',
  S3_ACCESS_KEY_ID: 'x',
  S3_SECRET_ACCESS_KEY: 'x',
  REDIS_URL: 'rediss://x',
}
const AWAY = { TEMPORAL_ADDRESS: 'temporal.example:7233' }
const WITH_KEY = { ...AWAY, TEMPORAL_API_KEY: 'a-key' }

const dir = mkdtempSync(join(tmpdir(), 'tenon-temporal-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

function fileOf(name: string, text: string): string {
  const path = join(dir, name)
  writeFileSync(path, text)
  return path
}

type Settings = Readonly<Record<string, string>>

/** The sentences of `tenon migrate`, and those of a process, which have to be the same. */
function faultsOf(settings: Settings): string {
  let fault = ''
  try {
    readTemporal(settings)
  } catch (error) {
    fault = (error as Error).message
  }
  let ofProcess: readonly string[] = []
  try {
    parseConfig({ ...NEEDED, ...settings })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    ofProcess = error.faults
  }
  expect(ofProcess).toEqual(fault === '' ? [] : [fault])
  return fault
}

/** With a profile that has these lines. */
const profile = (...lines: readonly string[]): Settings => ({
  TEMPORAL_CONFIG_FILE: fileOf('temporal.toml', ['[profile.default]', ...lines].join('\n')),
})

test.each(['true', 'True', 'TRUE', '1'])('TEMPORAL_TLS=%s: TLS', (TEMPORAL_TLS) => {
  for (const settings of [AWAY, WITH_KEY]) {
    expect(readTemporal({ ...settings, TEMPORAL_TLS }).connection.tls).toEqual(expect.any(Object))
    expect(faultsOf({ ...settings, TEMPORAL_TLS })).toBe('')
  }
})

test.each(['false', 'False', 'FALSE', '0'])(
  'TEMPORAL_TLS=%s: none, also beside an API key',
  (TEMPORAL_TLS) => {
    for (const settings of [AWAY, WITH_KEY]) {
      expect(readTemporal({ ...settings, TEMPORAL_TLS }).connection.tls).toBe(false)
      expect(faultsOf({ ...settings, TEMPORAL_TLS })).toBe('')
    }
  },
)

test.each(['yes', 'on', 'no', 'off', 't', '2', ' true', 'true ', 'disabled'])(
  'TEMPORAL_TLS=%j: refused',
  (TEMPORAL_TLS) => {
    expect(faultsOf({ ...WITH_KEY, TEMPORAL_TLS })).toMatch(/^TEMPORAL_TLS must be boolean\. True for TLS/)
  },
)

test('TEMPORAL_TLS that is not set: TLS with an API key or a certificate of an authority, else none', () => {
  const ca = { TEMPORAL_TLS_SERVER_CA_CERT_PATH: fileOf('ca', makeAuthority().certificate) }
  for (const TEMPORAL_TLS of [undefined, '']) {
    const tlsWith = (settings: Settings) => readTemporal({ ...settings, TEMPORAL_TLS }).connection.tls
    expect(tlsWith(AWAY)).toBeUndefined()
    expect(tlsWith(WITH_KEY)).toBe(true)
    expect(tlsWith({ ...AWAY, ...ca })).toEqual(expect.any(Object))
  }
})

test('TLS that is off beside another setting of TLS: refused, by variable and by profile', () => {
  const ca = { TEMPORAL_TLS_SERVER_CA_CERT_PATH: fileOf('ca', makeAuthority().certificate) }
  const spite = /^There would be no TLS in spite of TEMPORAL_TLS.*: /
  expect(faultsOf({ ...AWAY, ...ca, TEMPORAL_TLS: 'False' })).toMatch(spite)
  expect(faultsOf({ ...AWAY, TEMPORAL_TLS_SERVER_NAME: 'x', TEMPORAL_TLS: '0' })).toMatch(spite)
  const off = profile('tls = { disabled = true }')
  expect(faultsOf({ ...AWAY, ...ca, ...off })).toMatch(spite)
  expect(readTemporal({ ...AWAY, ...ca, ...off, TEMPORAL_TLS: 'TRUE' }).connection.tls).toEqual(
    expect.any(Object),
  )
})

test('credential without TLS: refused towards other machines, unless TEMPORAL_TLS is false', () => {
  const refused = /^The credential for Temporal would be sent without TLS\./
  const ways: Settings[] = [
    { ...WITH_KEY, ...profile('tls = { disabled = true }') },
    { ...AWAY, TEMPORAL_GRPC_META_AUTHORIZATION: 'Bearer x' },
  ]
  for (const way of ways) {
    expect(faultsOf(way)).toMatch(refused)
    expect(faultsOf({ ...way, TEMPORAL_ADDRESS: '127.0.0.1.example:7233' })).toMatch(refused)
    expect(faultsOf({ ...way, TEMPORAL_TLS: 'false' })).toBe('')
    for (const host of ['127.0.0.1', 'localhost', '[::1]'])
      expect(faultsOf({ ...way, TEMPORAL_ADDRESS: `${host}:7233` })).toBe('')
  }
})
