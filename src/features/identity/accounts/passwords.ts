/** Hashes passwords with scrypt, for accounts and for users of workspaces. */

import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { ISSUER_LIMITS } from '../limits.ts'
import { PasswordSlots, type Payer } from './password-slots.ts'

/** OWASP Password Storage Cheat Sheet, scrypt: N = 2^15, r = 8, p = 3. */
const COST = { log2N: 15, r: 8, p: 3 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/** Twice what the parameters need (128·N·r bytes). */
const MEMORY_BYTES_MAX = 67_108_864

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt)
const slots = new PasswordSlots(ISSUER_LIMITS.passwordHashesMax)

/** A hash with its parameters: `scrypt$15$8$3$<salt>$<hash>`. @throws Problem as {@link PasswordSlots.acquire} */
export async function hashPassword(password: string, payer: Payer): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const { log2N, r, p } = COST
  const made = await deriveHash(password, salt, COST, payer)
  return ['scrypt', log2N, r, p, salt.toString('base64url'), made.toString('base64url')].join('$')
}

/** True if a password may be set; no account has one of another length. */
export function hasValidLength({ length }: string): boolean {
  return length >= ISSUER_LIMITS.passwordCharsMin && length <= ISSUER_LIMITS.passwordCharsMax
}

/**
 * True if the hash is that of the password. Without a hash the same work is done, so that the time does not reveal if
 * the account exists.
 * @throws Problem as {@link PasswordSlots.acquire}
 */
export async function verifyPassword(
  password: string,
  passwordHash: string | undefined,
  payer: Payer,
): Promise<boolean> {
  if (!hasValidLength(password)) return false
  const [, log2N, r, p, salt = '', made = ''] = (passwordHash ?? DUMMY_HASH).split('$')
  const cost = { log2N: Number(log2N), r: Number(r), p: Number(p) }
  const derived = await deriveHash(password, Buffer.from(salt, 'base64url'), cost, payer)
  return timingSafeEqual(derived, Buffer.from(made, 'base64url')) && passwordHash !== undefined
}

const DUMMY_HASH = `scrypt$${COST.log2N}$${COST.r}$${COST.p}$${'A'.repeat(22)}$${'A'.repeat(43)}`

async function deriveHash(
  password: string,
  salt: Buffer,
  { log2N, r, p }: typeof COST,
  payer: Payer,
): Promise<Buffer> {
  const release = await slots.acquire(payer)
  try {
    // Keyboards differ in the code points that they send for the same letters.
    const text = password.normalize('NFKC')
    return await derive(text, salt, HASH_BYTES, { N: 2 ** log2N, r, p, maxmem: MEMORY_BYTES_MAX })
  } finally {
    release()
  }
}
