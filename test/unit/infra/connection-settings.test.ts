/** Settings of connections whose files cannot be used, contradict each other or would have no effect: each is a sentence. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConfigError, parseConfig } from '../../../src/infra/config.ts'
import { makeAuthority } from '../../support/servers/authority.ts'

const NEEDED = {
  TENON_MASTER_KEY: `${'A'.repeat(43)}=`,
  DATABASE_APP_URL: 'postgres://x',
  TEMPORAL_ADDRESS: 'x:1',
  S3_ENDPOINT: 'https://x',
  S3_ACCESS_KEY_ID: 'x',
  S3_SECRET_ACCESS_KEY: 'x',
  REDIS_URL: 'rediss://x',
}
const authority = makeAuthority()
const [own, other] = [authority.issue(), authority.issue()]

let dir: string
/** Paths by name. */
let files: Record<string, string>
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-settings-'))
  const texts = {
    ...{ ca: authority.certificate, cert: own.certificate, key: own.key, otherKey: other.key },
    text: 'no certificate',
  }
  const write = async ([name, text]: [string, string]) => {
    const path = join(dir, name)
    await writeFile(path, text)
    return [name, path]
  }
  files = Object.fromEntries(await Promise.all(Object.entries(texts).map(write)))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

function faultsOf(settings: Readonly<Record<string, string | undefined>>): readonly string[] {
  try {
    parseConfig({ ...NEEDED, ...settings })
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  }
}

test('files of authorities, certificate and key: are read when the process starts', () => {
  const { ca: REDIS_CA_FILE, ca: S3_CA_FILE, cert: REDIS_CERT_FILE, key: REDIS_KEY_FILE } = files
  const { VALKEY, S3_CA } = parseConfig({
    ...NEEDED,
    ...{ REDIS_CA_FILE, S3_CA_FILE, REDIS_CERT_FILE, REDIS_KEY_FILE },
  })
  const texts = [VALKEY.tls?.ca, S3_CA, VALKEY.tls?.cert, VALKEY.tls?.key].map((text) => text?.trim())
  const { certificate } = authority
  expect(texts).toEqual([certificate, certificate, own.certificate, own.key].map((text) => text.trim()))
})

test('files that are missing or hold something else: refused with the setting', () => {
  for (const setting of ['REDIS_CA_FILE', 'S3_CA_FILE']) {
    expect(faultsOf({ [setting]: '/nowhere' })).toEqual([
      `${setting} names a file that cannot be read: ENOENT.`,
    ])
    expect(faultsOf({ [setting]: files['text'] })).toEqual([
      `${setting} names a file that has no certificate in PEM.`,
    ])
  }
  const url = (parameter: string, path = '') => `postgres://x/y?sslmode=verify-full&${parameter}=${path}`
  expect(faultsOf({ DATABASE_APP_URL: url('sslrootcert', '/nowhere') })).toEqual([
    'sslrootcert in DATABASE_APP_URL names a file that cannot be read: ENOENT.',
  ])
  expect(faultsOf({ DATABASE_BUILDER_URL: url('sslkey', files['ca']) })).toEqual([
    'sslkey in DATABASE_BUILDER_URL names a file that has no key in PEM.',
  ])
})

test('certificates without effect or without their key: refused', () => {
  const { ca, cert, key, otherKey } = files
  expect(faultsOf({ REDIS_CA_FILE: ca, REDIS_URL: 'redis://x' })).toEqual([
    expect.stringContaining('have no effect: REDIS_URL must begin with rediss://'),
  ])
  expect(faultsOf({ S3_CA_FILE: ca, S3_ENDPOINT: 'http://x' })).toEqual([
    'S3_CA_FILE has no effect: S3_ENDPOINT must begin with https://.',
  ])
  expect(faultsOf({ REDIS_CERT_FILE: cert })).toEqual([
    'REDIS_CERT_FILE and REDIS_KEY_FILE need each other: set both.',
  ])
  expect(faultsOf({ REDIS_CERT_FILE: cert, REDIS_KEY_FILE: otherKey })).toEqual([
    'REDIS_KEY_FILE is not the key of the certificate of REDIS_CERT_FILE.',
  ])
  expect(faultsOf({ REDIS_CERT_FILE: cert, REDIS_KEY_FILE: key })).toEqual([])
})
