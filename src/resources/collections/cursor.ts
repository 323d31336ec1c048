/** The page cursor: where a page ended, sealed for its workspace and bound to its collection, filter and order. */

import { createHash } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { decryptFor, encryptFor } from '../../platform/capabilities.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { type Filter, isIndex, type OrderKey, type Path } from './grammar/filter.ts'
import type { Stored } from './store.ts'

const PURPOSE = 'cursor'
const PREFIX = 'c1_'

/** What the cursor is good for: a digest of the query that made it. */
export function digestOf(collection: string, filter: Filter, order: readonly OrderKey[]): string {
  return createHash('sha256')
    .update(JSON.stringify([collection, filter, order]))
    .digest('base64url')
    .slice(0, 22)
}

/** @throws Problem `cursor_too_large` where the values it holds would not fit into a URL */
export function writeCursor(scope: WorkspaceScope, digest: string, values: readonly Json[]): string {
  const text =
    PREFIX + encryptFor(scope, PURPOSE, Buffer.from(JSON.stringify([digest, values]))).toString('base64url')
  if (text.length > LIMITS.cursorCharsMax) {
    const detail = 'The values that the page is ordered by are too long to continue from.'
    throw new Problem('cursor_too_large', { detail })
  }
  return text
}

/** @throws Problem `cursor_invalid` where it does not open here, `cursor_mismatch` where it is another query's */
export function readCursor(scope: WorkspaceScope, digest: string, text: string): readonly Json[] {
  const [made, values] = opened(scope, text)
  if (made !== digest) throw new Problem('cursor_mismatch')
  return values
}

function opened(scope: WorkspaceScope, text: string): [string, Json[]] {
  const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url')
  // base64url forgives what it does not know; only the very text that was given out is taken back.
  if (!text.startsWith(PREFIX) || bytes.toString('base64url') !== text.slice(PREFIX.length))
    throw new Problem('cursor_invalid')
  try {
    return JSON.parse(decryptFor(scope, PURPOSE, bytes).toString())
  } catch (cause) {
    throw new Problem('cursor_invalid', { cause })
  }
}

/** The order's values in a document; null where it has none. */
export function valuesOf(stored: Stored, order: readonly OrderKey[]): Json[] {
  return order.map(({ path }) => valueAt(stored, path))
}

const OURS: Readonly<Record<string, (stored: Stored) => Json>> = {
  id: (stored) => stored.id,
  _created_at: (stored) => stored.created_at,
  _updated_at: (stored) => stored.updated_at,
  _version: (stored) => stored.version,
}

/** The value at a path; null where there is none. */
function valueAt(stored: Stored, path: Path): Json {
  const [name] = path
  const ours = path.length === 1 && Object.hasOwn(OURS, name) ? OURS[name] : undefined
  if (ours !== undefined) return ours(stored)
  let value: unknown = stored.fields
  for (const step of path) value = memberOf(value, step)
  return (value ?? null) as Json
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value) && !isIndex(name)) return undefined
  return Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
}
