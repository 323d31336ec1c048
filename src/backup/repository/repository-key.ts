/** The key of a repository, wrapped by a passphrase: whoever knows the passphrase reads the backups, and nobody else. */

import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { promisify } from 'node:util'

/** As `repository.json` has it. Bytes are in base64. */
export interface WrappedKey {
  readonly kdf: 'scrypt'
  readonly n: number
  readonly r: number
  readonly p: number
  readonly salt: string
  readonly iv: string
  readonly tag: string
  readonly key: string
}

/** 128 MiB and some 0.3 s for each guess. */
const COST = { n: 131_072, r: 8, p: 1 }
/** A file may not ask for more: 1 GiB. */
const COST_MAX = 1_048_576
const PASSPHRASE_CHARS_MIN = 12

type Derive = (
  passphrase: string,
  salt: Buffer,
  bytes: number,
  options: { N: number; r: number; p: number; maxmem: number },
) => Promise<Buffer>
const derive = promisify(scrypt) as Derive

export class WrongPassphrase extends Error {
  constructor() {
    super(
      'The passphrase does not open this repository. Set TENON_BACKUP_PASSPHRASE, or TENON_BACKUP_PASSPHRASE_FILE, to the one that it was made with.',
    )
    this.name = 'WrongPassphrase'
  }
}

/** @returns 32 random bytes, and as they are stored @throws Error if the passphrase is too short */
export async function makeRepositoryKey(passphrase: string): Promise<{ key: Buffer; wrapped: WrappedKey }> {
  if (passphrase.length < PASSPHRASE_CHARS_MIN)
    throw new Error(
      `The passphrase of a repository has at least ${PASSPHRASE_CHARS_MIN} characters: with the master key in it, it protects everything.`,
    )
  const key = randomBytes(32)
  const [salt, iv] = [randomBytes(16), randomBytes(12)]
  const cipher = createCipheriv('aes-256-gcm', await wrappingKey(passphrase, salt, COST), iv)
  const sealed = Buffer.concat([cipher.update(key), cipher.final()])
  const text = (bytes: Buffer) => bytes.toString('base64')
  const wrapped: WrappedKey = {
    ...{ kdf: 'scrypt', ...COST, salt: text(salt), iv: text(iv) },
    ...{ tag: text(cipher.getAuthTag()), key: text(sealed) },
  }
  return { key, wrapped }
}

/** @throws WrongPassphrase */
export async function unwrapRepositoryKey(passphrase: string, wrapped: WrappedKey): Promise<Buffer> {
  const { salt, iv, tag, key, n } = wrapped
  if (wrapped.kdf !== 'scrypt' || n > COST_MAX)
    throw new Error('The repository was made by another version of Tenon.')
  const bytes = (text: string) => Buffer.from(text, 'base64')
  const decipher = createDecipheriv(
    'aes-256-gcm',
    await wrappingKey(passphrase, bytes(salt), wrapped),
    bytes(iv),
  )
  decipher.setAuthTag(bytes(tag))
  try {
    return Buffer.concat([decipher.update(bytes(key)), decipher.final()])
  } catch {
    throw new WrongPassphrase()
  }
}

const wrappingKey = (passphrase: string, salt: Buffer, { n, r, p }: Pick<WrappedKey, 'n' | 'r' | 'p'>) =>
  derive(passphrase, salt, 32, { N: n, r, p, maxmem: 256 * n * r })
