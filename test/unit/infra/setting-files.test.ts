/** Each setting with a secret may be given as a file: `<NAME>_FILE`. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConfigError, describeConfig, parseConfig, SECRET_SETTINGS } from '../../../src/infra/config.ts'
import { withMasterKeys } from '../../../src/infra/crypto/key-provider.ts'

/** Each secret, with a value that it accepts. */
const SECRETS: Readonly<Record<string, string>> = {
  TENON_OPERATOR_SECRET: 'o'.repeat(32),
  GATEWAY_SECRET: 'g'.repeat(32),
  DATABASE_APP_URL: 'postgres://tenon_app:p@db/tenon',
  DATABASE_BUILDER_URL: 'postgres://tenon_builder:p@db/tenon',
  DATABASE_SESSION_URL: 'postgres://tenon_app:p@db/tenon',
  TEMPORAL_API_KEY: 'a key',
  REDIS_SENTINEL_PASSWORD: 's',
  S3_SECRET_ACCESS_KEY: 'a secret ',
  TENON_KEYCLOAK_CLIENT_SECRET: 'k',
  REDIS_URL: 'rediss://:p@valkey:6379',
  MONGODB_URL: 'mongodb://u:p@mongo',
  SMTP_URL: 'smtps://u:p@mail',
}
const NEEDED = {
  TENON_MASTER_KEY: `${'A'.repeat(43)}=`,
  TEMPORAL_ADDRESS: 'x:1',
  S3_ENDPOINT: 'http://x',
  S3_ACCESS_KEY_ID: 'x',
}

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-secrets-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

async function fileOf(text: string): Promise<string> {
  const path = join(dir, crypto.randomUUID())
  await writeFile(path, text)
  return path
}

/** All secrets as files, each with this end. */
async function filesWith(end: string): Promise<Record<string, string>> {
  const paths = Object.entries(SECRETS).map(async ([name, secret]) => [
    `${name}_FILE`,
    await fileOf(`${secret}${end}`),
  ])
  return Object.fromEntries(await Promise.all(paths))
}

function faultsOf(env: Readonly<Record<string, string>>): readonly string[] {
  try {
    parseConfig(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  }
}

test('settings with a secret: by the schema: are those that are tested here, and the reference names their files', () => {
  expect([...SECRET_SETTINGS].sort()).toEqual(Object.keys(SECRETS).sort())
  for (const { name, description } of describeConfig())
    expect([name, description.includes(`\`${name}_FILE\``)]).toEqual([name, SECRET_SETTINGS.includes(name)])
})

test.each(['', '\n', '\r\n'])('all secrets as files that end with %j: are read without it', async (end) => {
  expect(parseConfig({ ...NEEDED, ...(await filesWith(end)) })).toMatchObject(SECRETS)
})

test('file of a secret: missing, a folder, empty, or beside the setting: refused with its name, and without the secret', async () => {
  const files = await filesWith('')
  const refused = (file: string, more: Record<string, string> = {}) =>
    faultsOf({ ...NEEDED, ...files, REDIS_URL_FILE: file, ...more })
  expect(refused(join(dir, 'none'))).toEqual(['REDIS_URL_FILE names a file that cannot be read: ENOENT.'])
  expect(refused(dir)).toEqual(['REDIS_URL_FILE names a file that cannot be read: EISDIR.'])
  for (const empty of ['', '\n'])
    expect(refused(await fileOf(empty))).toEqual(['REDIS_URL_FILE names a file that is empty.'])
  expect(refused(await fileOf('redis://x'), { REDIS_URL: 'redis://y' })).toEqual([
    'REDIS_URL and REDIS_URL_FILE are both set: unset one of them.',
  ])
  const [wrong = ''] = refused(await fileOf('http://wrong'))
  expect(wrong).toMatch(/^REDIS_URL /)
  expect(wrong).not.toContain('http://wrong')
})

test('master key as a file, without a provider: is read as that of the provider `file`', async () => {
  const { TENON_MASTER_KEY: key, ...others } = NEEDED
  const env = { ...others, ...(await filesWith('\n')), TENON_MASTER_KEY_FILE: await fileOf(`${key}\n`) }
  expect(parseConfig(await withMasterKeys<Record<string, string>>(env))).toMatchObject({
    TENON_MASTER_KEY: key,
  })
})
