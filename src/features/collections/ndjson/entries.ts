/** The documents that the lines of an import hold: of NDJSON, and of CSV. */

import { createHash } from 'node:crypto'
import { isUuid, seededIds } from '../../../core/ids.ts'
import { parseJson } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import type { Column } from '../csv/columns.ts'
import { type ReadOptions, readCsv } from '../csv/read-csv.ts'
import type { Fields } from '../document.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Line, splitLines } from './lines.ts'

/** A line that is not blank. */
export interface Entry {
  readonly line: number
  /** The line on which it ends: a cell of CSV may have line breaks. */
  readonly lastLine: number
  readonly bytes: number
  readonly request: LineRequest | Problem
}

export interface LineRequest {
  readonly id: string
  readonly data: Fields
  /** True if the line names the id. */
  readonly isNamed: boolean
  /** `_owner`, `_version` and the times as the line has them. */
  readonly system: Readonly<Record<'_owner' | '_version' | '_created_at' | '_updated_at', unknown>>
}

/** The ids of the documents of entries that could be read. */
export const idsOf = (entries: readonly Entry[]): string[] =>
  entries.flatMap(({ request }) => (request instanceof Problem ? [] : [request.id]))

/** Lines as they arrive. */
interface Arrived {
  readonly entries: readonly Entry[]
  /** The last line that was read, blank ones included. */
  readonly line: number
  /** Of CSV. */
  readonly columns?: readonly Column[]
}

/** Reads a body for a collection, whose declaration gives cells their types. */
export type ReadEntries = (
  chunks: AsyncIterable<Uint8Array>,
  declared: Declaration | undefined,
) => AsyncIterable<Arrived>

/** Gives the id of a line that names none. */
type IdOf = (line: number, text: string) => string

/**
 * Derives the id from the text and number of a line: a file that is sent again meets its own documents, and another file
 * under the same key does not. The ids have the order of the file and the time of the first use of the key.
 */
export const seeded =
  ({ seed, atMs }: { seed: Buffer; atMs: number }): IdOf =>
  (line, text) => {
    const random = createHash('sha256').update(seed).update(`${line}/${text}`).digest()
    random.writeUInt32BE(line >>> 0, SEQUENCE_AT)
    return seededIds(atMs, () => random).uuid()
  }

/** The offset of the random bytes that the library uses as the sequence: 31 bits that count up (RFC 9562 §6.2). */
const SEQUENCE_AT = 6

export const ndjsonEntries = (idOf: IdOf): ReadEntries =>
  async function* (chunks) {
    let last = 0
    for await (const lines of splitLines(chunks, CORE_LIMITS.bodyBytesMax)) {
      last = lines.at(-1)?.number ?? last
      yield { entries: lines.flatMap((line) => entryOf(line, idOf) ?? []), line: last }
    }
  }

export const csvEntries = (idOf: IdOf, options: ReadOptions): ReadEntries =>
  async function* (chunks, declared) {
    for await (const { rows, line: last, columns = [] } of readCsv(chunks, declared, options)) {
      const entries = rows.map(({ line, lastLine, text, document }): Entry => {
        const read = () =>
          document instanceof Problem ? document : requestOf(document, () => idOf(line, text))
        return { line, lastLine, bytes: text.length, request: orProblem(read) }
      })
      yield { entries, line: last, columns }
    }
  }

/** @returns undefined for a blank line */
function entryOf({ number: line, bytes }: Line, idOf: IdOf): Entry | undefined {
  if (bytes?.byteLength === 0) return undefined
  let isBlank = false
  const request = orProblem(() => {
    const text = textOf(bytes)
    isBlank = text.trim() === ''
    return isBlank ? BLANK : requestOf(parseJson(text), () => idOf(line, text))
  })
  return isBlank ? undefined : { line, lastLine: line, bytes: bytes?.byteLength ?? 0, request }
}

const BLANK = new Problem('validation_failed', { detail: 'The line is blank.' })

function orProblem(read: () => LineRequest | Problem): LineRequest | Problem {
  try {
    return read()
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}

function textOf(bytes: Uint8Array | undefined): string {
  if (bytes === undefined) {
    const members = { limit_bytes: CORE_LIMITS.bodyBytesMax }
    throw new Problem('body_too_large', {
      detail: `The line has more than ${CORE_LIMITS.bodyBytesMax} bytes.`,
      members,
    })
  }
  // Also removes byte-order marks, which concatenated files have on several lines.
  return decodeUtf8(bytes, 'The line')
}

function requestOf(value: unknown, newId: () => string): LineRequest {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Problem('validation_failed', { detail: 'The line is not a JSON object.' })
  // An export contains these fields; usually all but the id and the owner are ignored.
  const { id, _created_at, _updated_at, _version, _owner, _warnings, ...data } = value as Fields
  const isNamed = id !== undefined
  const system = { _owner, _version, _created_at, _updated_at }
  return { id: isNamed ? documentId(id) : newId(), data, isNamed, system }
}

/** RFC 9562 §4: a UUID is read in either case. */
function documentId(id: unknown): string {
  const text = typeof id === 'string' ? id.toLowerCase() : ''
  if (isUuid(text)) return text
  throw bodyProblem('/id', 'is not a UUID', '/id is not a UUID')
}
