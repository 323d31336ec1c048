/**
 * Reads the master keys from the environment, from a file, or from AWS KMS, which unwraps what one of these has: once, when a process
 * starts, before the configuration is checked.
 */

import { randomBytes } from 'node:crypto'
import { ConfigError } from '../config.ts'
import { formatMasterKeys, masterKeyOf, parseMasterKeys } from './master-keys.ts'
import { readSecretFile } from './setting-files.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Where keys are read from, and how a new one is made for it. */
interface KeyProvider {
  /** Settings that it needs, and those that it does not take. */
  readonly needs: readonly string[]
  readonly rejects: readonly string[]
  /** @returns the keys with commas between them @throws Error that says what is wrong, and shows no key */
  read(env: Environment): Promise<string>
  /** @returns a new key as the setting or the file takes it */
  make(env: Environment): Promise<string>
}

const randomKey = async () => randomBytes(32).toString('base64')

const PROVIDERS: Readonly<Record<string, KeyProvider>> = {
  env: {
    needs: [],
    rejects: ['TENON_MASTER_KEY_FILE', 'TENON_KMS_KEY_ID'],
    read: async ({ TENON_MASTER_KEY: keys = '' }) => keys,
    make: randomKey,
  },
  file: {
    needs: ['TENON_MASTER_KEY_FILE'],
    rejects: ['TENON_MASTER_KEY', 'TENON_KMS_KEY_ID'],
    read: async (env) => formatMasterKeys(parseMasterKeys(readKeyFile(env))),
    make: randomKey,
  },
  kms: {
    needs: ['TENON_KMS_KEY_ID'],
    rejects: [],
    read: async (env) => {
      const wrapped = env['TENON_MASTER_KEY_FILE'] ? readKeyFile(env) : (env['TENON_MASTER_KEY'] ?? '')
      const texts = wrapped.split(/[\s,]+/).filter((text) => text !== '')
      const keys = await Promise.all(texts.map((text) => unwrapKey(env['TENON_KMS_KEY_ID'], text)))
      return formatMasterKeys(keys.map(masterKeyOf))
    },
    make: (env) => makeWrappedKey(env['TENON_KMS_KEY_ID']),
  },
}

/**
 * The environment with the keys themselves in TENON_MASTER_KEY.
 * @throws ConfigError if a setting is missing or too many, a file cannot be read, or KMS does not unwrap a key
 */
export async function withMasterKeys<E extends Environment>(env: E): Promise<E & Environment> {
  const { provider, name } = providerOf(env)
  const keys = await provider.read(env).catch((error: unknown) => {
    throw new ConfigError([
      `The master key cannot be read (TENON_KEY_PROVIDER=${name}). ${(error as Error).message}`,
    ])
  })
  return keys === '' ? env : { ...env, TENON_MASTER_KEY: keys }
}

/** @returns a new key as the provider of the environment takes it: in base64, or wrapped @throws as {@link withMasterKeys} */
export const makeMasterKey = (env: Environment): Promise<string> => providerOf(env).provider.make(env)

function providerOf(env: Environment): { readonly provider: KeyProvider; readonly name: string } {
  const name = env['TENON_KEY_PROVIDER'] || (env['TENON_MASTER_KEY_FILE'] ? 'file' : 'env')
  const provider = PROVIDERS[name]
  if (provider === undefined)
    throw new ConfigError([
      `TENON_KEY_PROVIDER is ${name}. It must be one of ${Object.keys(PROVIDERS).join(', ')}.`,
    ])
  const missing = provider.needs.filter((setting) => !env[setting])
  const odd = provider.rejects.filter((setting) => env[setting])
  const faults = [
    ...missing.map((setting) => `${setting} is missing, which TENON_KEY_PROVIDER=${name} needs.`),
    ...odd.map(
      (setting) =>
        `${setting} has no effect with TENON_KEY_PROVIDER=${name}: unset it, or set another provider.`,
    ),
  ]
  if (env['TENON_MASTER_KEY'] && env['TENON_MASTER_KEY_FILE'])
    faults.push('TENON_MASTER_KEY and TENON_MASTER_KEY_FILE are both set: unset one of them.')
  if (faults.length > 0) throw new ConfigError(faults)
  return { provider, name }
}

const readKeyFile = ({ TENON_MASTER_KEY_FILE: file = '' }: Environment): string =>
  readSecretFile('TENON_MASTER_KEY_FILE', file)

/** Part of each wrapped key: KMS unwraps nothing that was wrapped for something else, and a key policy may require it. */
const CONTEXT = { EncryptionContext: { purpose: 'tenon:master-key' } } as const

/**
 * The SDK is loaded only for KMS. Region, credentials and endpoint are its own: AWS_REGION, a role of the machine or pod,
 * AWS_ENDPOINT_URL_KMS.
 */
async function openKms() {
  const sdk = await import('@aws-sdk/client-kms')
  // Without KMS no process starts, so a moment of it must not end one.
  return { sdk, client: new sdk.KMSClient({ maxAttempts: 5 }) }
}

/** @param wrapped in base64 @returns the 32 bytes of the key @throws Error that says why KMS refuses */
async function unwrapKey(keyId: string | undefined, wrapped: string): Promise<Buffer> {
  const { sdk, client } = await openKms()
  const request = { KeyId: keyId, CiphertextBlob: Buffer.from(wrapped, 'base64'), ...CONTEXT }
  const { Plaintext } = await client.send(new sdk.DecryptCommand(request)).catch(rethrowRefusal)
  if (Plaintext?.length !== 32) throw new Error('AWS KMS has unwrapped a key that does not have 32 bytes.')
  return Buffer.from(Plaintext)
}

/** @returns a new key, wrapped, in base64: nobody sees its bytes */
async function makeWrappedKey(keyId: string | undefined): Promise<string> {
  const { sdk, client } = await openKms()
  const request = new sdk.GenerateDataKeyWithoutPlaintextCommand({
    KeyId: keyId,
    KeySpec: 'AES_256',
    ...CONTEXT,
  })
  const { CiphertextBlob } = await client.send(request).catch(rethrowRefusal)
  return Buffer.from(CiphertextBlob ?? []).toString('base64')
}

function rethrowRefusal(error: Error): never {
  throw new Error(`AWS KMS refuses: ${error.name}: ${error.message}`, { cause: error })
}
