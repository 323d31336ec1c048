/** Identifiers: TypeID (prefix + UUIDv7 in base32) for resources, plain UUIDv7 for documents. */

import { TypeID } from 'typeid-js'
import { v7 } from 'uuid'

export type IdPrefix =
  | 'ten'
  | 'ws'
  | 'key'
  | 'fn'
  | 'flow'
  | 'run'
  | 'bulk'
  | 'apr'
  | 'mcp'
  | 'src'
  | 'trg'
  | 'sch'
  | 'op'
  | 'del'
  | 'evt'
  | 'req'
  | 'agent'
  | 'acct'
  | 'usr'
  | 'client'
  | 'ses'

/** A source of new ids. Each scope has one; that of an activity is seeded, so that retries create the same ids. */
export interface IdSource {
  /** A UUIDv7 in its usual text form. */
  uuid(): string
}

/** Ordered: each id sorts after all earlier ones of this process, even if the clock is set back (RFC 9562 §6.2). */
export const randomIds: IdSource = { uuid: () => v7() }

/**
 * Reproducible ids: the same sequence for the same seed, so that a retried activity writes the same records instead of new
 * ones.
 * @param msecs the time that the ids carry, milliseconds since the epoch
 * @param random yields 16 bytes for the n-th id
 * @param seq the order among ids of the same time: 32 bits (RFC 9562 §6.2, method 1)
 */
export function seededIds(msecs: number, random: (n: number) => Uint8Array, seq?: number): IdSource {
  let n = 0
  return { uuid: () => v7({ msecs, random: random(n++), ...(seq !== undefined && { seq }) }) }
}

/** `ten_01j…` from a UUID. */
export function typeId<P extends IdPrefix>(prefix: P, uuid: string): `${P}_${string}` {
  return TypeID.fromUUID(prefix, uuid).toString() as `${P}_${string}`
}

/** The UUID inside a TypeID. */
export function uuidOf(id: string): string {
  return TypeID.fromString(id).toUUID()
}

/** When an id was made, milliseconds since 1970. @param uuid a UUIDv7 (RFC 9562 §5.7) */
export function timeOf(uuid: string): number {
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}

/** The JSON Schema pattern of one kind of id. */
export function idPattern(prefix: IdPrefix): string {
  return `^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`
}

/** True for a UUID, the form of all document ids. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text)
}
