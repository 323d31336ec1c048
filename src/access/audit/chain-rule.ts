/** The rule of a valid hash chain: each entry follows the one before, and its hash is that of its content. The database only appends. */

import { createHash } from 'node:crypto'
import { isObject } from '../../core/json.ts'

/** The place of an entry in its chain: its number, and its SHA-256 in hexadecimal. */
export interface ChainLink {
  readonly seq: number
  readonly hash: string
}

/** An entry as the database stores it. */
export interface ChainEntry extends ChainLink {
  readonly prev_hash: string
  /** The text that was hashed: canonical JSON. */
  readonly entry: string
  /** Members of the entry that have a column of their own, which readers filter by. */
  readonly copied: Readonly<Record<string, string | null>>
}

export interface EntryFault {
  readonly seq: number
  /** The numbers have a gap before it; it does not follow the entry before; it was changed. */
  readonly reason: 'missing' | 'link' | 'content'
}

/** The place before the first entry of a chain. */
export const CHAIN_START: ChainLink = { seq: 0, hash: '0'.repeat(64) }

/**
 * Hashes are computed here, and not by the database: its owner can change its functions.
 * @param before the place after which the entries follow @param entries in the order of their numbers
 * @returns the first entry that is not valid; null if all are
 */
export function findEntryFault(before: ChainLink, entries: readonly ChainEntry[]): EntryFault | null {
  let last = before
  for (const entry of entries) {
    const reason = faultOf(last, entry)
    if (reason !== undefined) return { seq: entry.seq, reason }
    last = entry
  }
  return null
}

function faultOf(last: ChainLink, entry: ChainEntry): EntryFault['reason'] | undefined {
  if (entry.seq !== last.seq + 1) return 'missing'
  if (entry.prev_hash !== last.hash) return 'link'
  return entry.hash === hashOf(entry) && hasCopied(entry) ? undefined : 'content'
}

/** As `tenon.audit_hash` computes it when it appends the entry. */
const hashOf = ({ prev_hash, seq, entry }: ChainEntry): string =>
  createHash('sha256').update(`${prev_hash}\n${seq}\n${entry}`).digest('hex')

function hasCopied({ entry, copied }: ChainEntry): boolean {
  const members = membersOf(entry)
  return members !== undefined && Object.entries(copied).every(([name, value]) => members[name] === value)
}

/** @returns the members of an entry; undefined for a text that is none */
export function membersOf(entry: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const members: unknown = JSON.parse(entry)
    return isObject(members) ? members : undefined
  } catch {
    return undefined
  }
}
