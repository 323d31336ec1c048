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
  | 'mcp'
  | 'trg'
  | 'sch'
  | 'op'
  | 'evt'
  | 'req'
  | 'agent'
  | 'acct'
  | 'client'

/** Where new ids come from. A door hands one to each scope; an activity's is seeded, so that retries agree. */
export interface IdSource {
  /** A UUIDv7 in its usual text form. */
  uuid(): string
}

/** Ordered: each id sorts behind all earlier ones of this process, even if the clock is set back (RFC 9562 §6.2). */
export const randomIds: IdSource = { uuid: () => v7() }

/**
 * Ids that are the same each time they are asked for in the same order: a retried activity makes the same
 * records again instead of new ones.
 * @param msecs the time that the ids carry, milliseconds since the epoch
 * @param random yields 16 bytes for the n-th id
 * @param seq where the ids stand among those of the same time: 32 bits (RFC 9562 §6.2, method 1)
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

/** The JSON Schema pattern of one kind of id. */
export function idPattern(prefix: IdPrefix): string {
  return `^${prefix}_[0-9a-hjkmnp-tv-z]{26}$`
}

/** Whether a text is a UUID; a document id of another form is the id of nothing. */
export function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text)
}
