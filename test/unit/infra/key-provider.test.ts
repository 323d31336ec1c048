/** Sources of the master keys: environment and file. AWS KMS is tested by `npm run test:kms`. */

import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeMasterKey, withMasterKeys } from '../../../src/infra/crypto/key-provider.ts'
import { parseMasterKeys } from '../../../src/infra/crypto/master-keys.ts'

const newKey = () => randomBytes(32).toString('base64')
const [ONE, OTHER] = [newKey(), newKey()]

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-keys-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const keysOf = async (env: NodeJS.ProcessEnv) =>
  (await withMasterKeys<NodeJS.ProcessEnv>(env))['TENON_MASTER_KEY']

test('keys in a file, one a line, or in the environment: the first one is first', async () => {
  const file = join(dir, 'keys')
  await writeFile(file, `${ONE}\n${OTHER}\n`)
  for (const provider of [{ TENON_KEY_PROVIDER: 'file' }, {}])
    expect(await keysOf({ ...provider, TENON_MASTER_KEY_FILE: file })).toBe(`${ONE},${OTHER}`)
  expect(await keysOf({ TENON_MASTER_KEY: `${OTHER},${ONE}` })).toBe(`${OTHER},${ONE}`)
  expect(await keysOf({})).toBeUndefined()
})

test('new key: for environment and file: 32 bytes, another one each time', async () => {
  const keys = [await makeMasterKey({}), await makeMasterKey({})]
  expect(parseMasterKeys(keys.join())).toHaveLength(2)
})

test('settings of the source that contradict each other, or a file that cannot be read: refused with the setting, and without a key', async () => {
  const file = join(dir, 'broken')
  await writeFile(file, `${ONE}\nshort\n`)
  for (const [env, said] of [
    [{ TENON_KEY_PROVIDER: 'vault' }, 'TENON_KEY_PROVIDER is vault. It must be one of env, file, kms.'],
    [
      { TENON_KEY_PROVIDER: 'file' },
      'TENON_MASTER_KEY_FILE is missing, which TENON_KEY_PROVIDER=file needs.',
    ],
    [{ TENON_KEY_PROVIDER: 'kms', TENON_MASTER_KEY: 'x' }, 'TENON_KMS_KEY_ID is missing'],
    [
      { TENON_KEY_PROVIDER: 'env', TENON_MASTER_KEY_FILE: file },
      'TENON_MASTER_KEY_FILE has no effect with TENON_KEY_PROVIDER=env: unset it',
    ],
    [
      { TENON_MASTER_KEY_FILE: file, TENON_MASTER_KEY: ONE },
      'TENON_MASTER_KEY and TENON_MASTER_KEY_FILE are both set',
    ],
    [{ TENON_KMS_KEY_ID: 'k' }, 'TENON_KMS_KEY_ID has no effect'],
    [
      { TENON_KEY_PROVIDER: 'file', TENON_MASTER_KEY_FILE: file, TENON_MASTER_KEY: ONE },
      'TENON_MASTER_KEY has no effect with TENON_KEY_PROVIDER=file',
    ],
    [
      {
        TENON_KEY_PROVIDER: 'kms',
        TENON_KMS_KEY_ID: 'k',
        TENON_MASTER_KEY_FILE: file,
        TENON_MASTER_KEY: ONE,
      },
      'TENON_MASTER_KEY and TENON_MASTER_KEY_FILE are both set',
    ],
    [{ TENON_KEY_PROVIDER: 'file', TENON_MASTER_KEY_FILE: join(dir, 'none') }, 'ENOENT'],
    [
      { TENON_KEY_PROVIDER: 'file', TENON_MASTER_KEY_FILE: file },
      'The master key 2 is not 32 bytes in base64.',
    ],
  ] as const) {
    const refused = await withMasterKeys<NodeJS.ProcessEnv>(env).catch((error: Error) => error)
    expect((refused as Error).message).toContain(said)
    expect((refused as Error).message).not.toContain(ONE)
  }
})
