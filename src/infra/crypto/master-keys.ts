/** The master keys of an installation: the first one encrypts, all of them decrypt. Each has an id, which its values carry. */

import { createHmac } from 'node:crypto'

export interface MasterKey {
  /** 16 hexadecimal digits, computed from the key: nobody has to name it, and it does not reveal the key. */
  readonly id: string
  /** 32 random bytes. */
  readonly bytes: Buffer
}

export type MasterKeyList = readonly [MasterKey, ...MasterKey[]]

/** Bytes of the id of a key. */
export const KEY_ID_BYTES = 8

/** One key: 32 bytes in base64. */
export const MASTER_KEY_PATTERN = '[A-Za-z0-9+/]{43}='

const KEY = new RegExp(`^${MASTER_KEY_PATTERN}$`)

/**
 * Reads keys that are separated by commas or white space.
 * @throws Error that tells which one is malformed by its position; it never shows a key
 */
export function parseMasterKeys(text: string): MasterKeyList {
  const [first, ...others] = text
    .split(/[\s,]+/)
    .filter((one) => one !== '')
    .map((one, index) => {
      if (!KEY.test(one)) throw new Error(`The master key ${index + 1} is not 32 bytes in base64.`)
      return masterKeyOf(Buffer.from(one, 'base64'))
    })
  if (first === undefined) throw new Error('There is no master key.')
  const ids = [first, ...others].map(({ id }) => id)
  const twice = ids.find((id, index) => ids.indexOf(id) !== index)
  if (twice !== undefined) throw new Error(`The master key ${twice} is there twice.`)
  return [first, ...others]
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  return { id: deriveFrom(bytes, 'installation:key-id').toString('hex', 0, KEY_ID_BYTES), bytes }
}

/** As {@link parseMasterKeys} reads them. */
export const formatMasterKeys = (keys: readonly MasterKey[]): string =>
  keys.map(({ bytes }) => bytes.toString('base64')).join(',')

/** A secret that follows from a master key: 32 bytes. */
export function deriveFrom(bytes: Buffer, purpose: string): Buffer {
  return createHmac('sha256', bytes).update(`tenon:derive:${purpose}`).digest()
}
