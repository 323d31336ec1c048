/** Pages of lists: input fields, envelope and cursor. */

import Type, { type Static, type TSchema } from 'typebox'
import { CORE_LIMITS } from './limits.ts'
import { Problem } from './problem.ts'

/** Input fields of every list operation: `Input({ ...PageInput, status: … })`. */
export const PageInput = {
  page_size: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: CORE_LIMITS.pageItemsMax,
      description: 'Items per page. Default: 50.',
    }),
  ),
  page_after: Type.Optional(
    Type.String({ maxLength: 2_800, description: '`page.next` of the previous page.' }),
  ),
}

export interface PageRequest {
  readonly page_size?: number
  readonly page_after?: string
}

const PageInfo = {
  size: Type.Integer(),
  next: Type.Union([Type.String(), Type.Null()]),
  has_more: Type.Boolean(),
}

/** `{data, page: {size, next, has_more}}`. */
export function PageOf<T extends TSchema>(item: T) {
  return Type.Object({ data: Type.Array(item), page: Type.Object(PageInfo) })
}
export type Page<T> = { data: T[]; page: Static<ReturnType<typeof PageOf>>['page'] }

/** A page with the total number of items and the position of changes, if requested, and whether its order is approximate. */
export function CountedPageOf<T extends TSchema>(item: T) {
  const total = Type.Optional(
    Type.Integer({ minimum: 0, description: 'Total number of items, if `count` requests it.' }),
  )
  const position = Type.Optional(
    Type.String({
      description:
        'Position from which changes of the collection continue, if it is requested: `last_event_id` of a subscription.',
    }),
  )
  const approximate = Type.Optional(
    Type.Literal(true, {
      description: 'True if more documents match than a search orders by their score.',
    }),
  )
  const page = Type.Object({ ...PageInfo, total, position, approximate })
  return Type.Object({ data: Type.Array(item), page })
}
export type CountedPage<T> = { data: T[]; page: Static<ReturnType<typeof CountedPageOf>>['page'] }

/**
 * The parameters of a list statement: the id to start after ('' for the first page), and one row more than requested.
 * @throws Problem `cursor_invalid`
 * @example
 * ```ts
 * const input: PageRequest = { page_size: 20 }
 * const { after, limit } = pageBounds(input) // '', 21
 * const rows = await scope.rows<Note>(sql`select id, title from notes where id > ${after} order by id limit ${limit}`)
 * const { data, page } = pageFrom(input, rows)
 * ```
 */
export function pageBounds(input: PageRequest, keys: RegExp = IDS): { after: string; limit: number } {
  const after = input.page_after === undefined ? '' : readCursor(input.page_after, keys)
  return { after, limit: (input.page_size ?? CORE_LIMITS.pageItemsDefault) + 1 }
}

/**
 * Turns rows into a page: the extra row becomes `has_more` and `next`.
 * @param rows at most one more than the page has items, as {@link pageBounds} asks for
 * @param cursorOf the sort key of a row, for the cursor. Default: its id
 * @example
 * ```ts
 * const rows = [{ name: 'a' }, { name: 'b' }]
 * pageFrom({ page_size: 1 }, rows, ({ name }) => name).page.has_more // true
 * ```
 */
export function pageFrom<T>(
  input: PageRequest,
  rows: readonly T[],
  cursorOf: (row: T) => unknown = (row) => (row as { id?: unknown }).id,
): Page<T> {
  const size = input.page_size ?? CORE_LIMITS.pageItemsDefault
  const data = rows.slice(0, size)
  const last = data.at(-1)
  const more = rows.length > size && last !== undefined
  return { data, page: { size, next: more ? cursor(String(cursorOf(last))) : null, has_more: more } }
}

function cursor(id: string): string {
  return `c1_${Buffer.from(id).toString('base64url')}`
}

const IDS = /^[0-9A-Za-z_-]{1,64}$/

/** Keys that are names of others: host names, and ids of clients that are URLs. */
export const TEXT_KEYS = /^[^\p{Cc}\uFFFD]{1,2048}$/u

function readCursor(text: string, keys: RegExp): string {
  const key = text.startsWith('c1_') ? Buffer.from(text.slice(3), 'base64url').toString() : ''
  if (!keys.test(key)) throw new Problem('cursor_invalid')
  return key
}
