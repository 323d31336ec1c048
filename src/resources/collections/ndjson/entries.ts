/** Lines of an import as documents to be: the id that each is to have, its fields, or what is wrong with it. */

import { createHash } from 'node:crypto'
import { isUuid, seededIds } from '../../../core/ids.ts'
import { parseJson } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Fields } from '../fields.ts'
import type { Line } from './lines.ts'

/** A line that is not blank. */
export interface Entry {
  readonly line: number
  readonly asked: { readonly id: string; readonly data: Fields } | Problem
}

/** Gives the id of a line that names none. */
export type IdOf = (line: number, text: string) => string

/**
 * The same id for the same text in the same line: a file that is sent again meets its own documents, another one under
 * the same key does not. They stand in the order of the file, at the time when the key was first used.
 */
export const seeded =
  ({ seed, atMs }: { seed: Buffer; atMs: number }): IdOf =>
  (line, text) => {
    const random = createHash('sha256').update(seed).update(`${line}/${text}`).digest()
    random.writeUInt32BE(line >>> 0, SEQUENCE_AT)
    return seededIds(atMs, () => random).uuid()
  }

/** Where the library takes what stands between time and chance from: 31 bits that count up (RFC 9562 §6.2). */
const SEQUENCE_AT = 6

/** @returns undefined for a blank line */
export function entryOf({ number: line, bytes }: Line, idOf: IdOf): Entry | undefined {
  if (bytes?.byteLength === 0) return undefined
  try {
    const text = textOf(bytes)
    return text.trim() === '' ? undefined : { line, asked: askedBy(text, () => idOf(line, text)) }
  } catch (error) {
    if (error instanceof Problem) return { line, asked: error }
    throw error
  }
}

// A byte-order mark is taken away: files that were put together have some in their midst.
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

function textOf(bytes: Uint8Array | undefined): string {
  if (bytes === undefined) {
    const members = { limit_bytes: LIMITS.bodyBytesMax }
    throw new Problem('body_too_large', {
      detail: `The line has more than ${LIMITS.bodyBytesMax} bytes.`,
      members,
    })
  }
  try {
    return UTF_8.decode(bytes)
  } catch (cause) {
    throw new Problem('body_invalid', { detail: 'The line is not valid UTF-8.', cause })
  }
}

function askedBy(text: string, newId: () => string): Exclude<Entry['asked'], Problem> {
  const value = parseJson(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Problem('validation_failed', { detail: 'The line is not a JSON object.' })
  // What the platform shows beside the fields says nothing of the new document.
  const { id, _created_at, _updated_at, _version, _warnings, ...data } = value as Fields
  return { id: id === undefined ? newId() : given(id), data }
}

/** RFC 9562 §4: a UUID is read in either case. */
function given(id: unknown): string {
  const text = typeof id === 'string' ? id.toLowerCase() : ''
  if (isUuid(text)) return text
  const errors = [{ in: 'body', name: 'id', pointer: '/id', detail: 'is not a UUID' }] as const
  throw new Problem('validation_failed', { detail: '/id is not a UUID', errors })
}
