/** Passwords: scrypt with the parameters of this one file, written beside each hash so that they can grow. */

import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { LIMITS } from '../../core/limits.ts'
import { KeyedSemaphore } from '../shares.ts'

/** OWASP Password Storage Cheat Sheet, scrypt: N = 2^15, r = 8, p = 3. */
const COST = { log2N: 15, r: 8, p: 3 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/** Twice what the parameters need (128·N·r bytes). */
const MEMORY_BYTES_MAX = 67_108_864

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt)
const places = new KeyedSemaphore(LIMITS.passwordsAtOnce, LIMITS.passwordWaitMs)

/** A hash with its parameters: `scrypt$15$8$3$<salt>$<hash>`. @throws Problem `overloaded` */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const { log2N, r, p } = COST
  const made = await derived(password, salt, COST)
  return ['scrypt', log2N, r, p, salt.toString('base64url'), made.toString('base64url')].join('$')
}

/** Whether a password may be set: whoever sends another one has guessed wrong, whose ever it was. */
export function isPossible({ length }: string): boolean {
  return length >= LIMITS.passwordCharsMin && length <= LIMITS.passwordCharsMax
}

/**
 * Whether it is the password. Without a hash the same work is done for nothing, so that nobody learns from the clock
 * who has an account.
 * @throws Problem `overloaded`
 */
export async function isPassword(password: string, kept: string | undefined): Promise<boolean> {
  if (!isPossible(password)) return false
  const [, log2N, r, p, salt = '', made = ''] = (kept ?? NOBODYS).split('$')
  const cost = { log2N: Number(log2N), r: Number(r), p: Number(p) }
  const given = await derived(password, Buffer.from(salt, 'base64url'), cost)
  return timingSafeEqual(given, Buffer.from(made, 'base64url')) && kept !== undefined
}

const NOBODYS = `scrypt$${COST.log2N}$${COST.r}$${COST.p}$${'A'.repeat(22)}$${'A'.repeat(43)}`

async function derived(password: string, salt: Buffer, { log2N, r, p }: typeof COST): Promise<Buffer> {
  const giveBack = await places.acquire('', 'Too many people sign in at the moment.')
  try {
    // The same letters may come as different code points from different keyboards.
    const text = password.normalize('NFKC')
    return await derive(text, salt, HASH_BYTES, { N: 2 ** log2N, r, p, maxmem: MEMORY_BYTES_MAX })
  } finally {
    giveBack()
  }
}
