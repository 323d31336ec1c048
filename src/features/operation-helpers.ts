/** Helpers that operations of several features use: declare one, read one record or a page, translate conflicts. */

import { hash } from 'node:crypto'
import type { TObject, TSchema } from 'typebox'
import { workspaceOperation } from '../access/operation-builders.ts'
import type { WorkspaceScope } from '../access/scope.ts'
import type { ByteReply } from '../core/bytes.ts'
import { matches } from '../core/etag.ts'
import type { OperationSpec } from '../core/operation.ts'
import { type Page, type PageRequest, pageBounds, pageFrom, TEXT_KEYS } from '../core/page.ts'
import { notFound, Problem } from '../core/problem.ts'
import type { ProblemCode } from '../core/problem-catalogue.ts'
import type { Statements } from '../infra/postgres/database.ts'
import { violated } from '../infra/postgres/errors.ts'
import { type Sql, sql } from '../infra/postgres/sql.ts'
import { SHARED_LIMITS } from './limits.ts'

/**
 * An operation on a workspace for those who administer, develop or see it, and a preview.
 * @example
 * ```ts
 * const getNote = previewOperation({
 *   name: 'note.get',
 *   summary: 'Read a note',
 *   roles: VIEWERS,
 *   input: Input({ ws: Ref('workspace'), id: Ref('note') }),
 *   output: Type.Object({ id: Type.String(), title: Name }),
 *   http: { method: 'GET', path: '/v1/workspaces/{ws}/notes/{id}' },
 *   run: (scope, { id }) => findRow<Note>(scope, 'note', sql`select id, title from notes where id = ${id}`),
 * })
 * ```
 */
export const previewOperation = <I extends TObject, O extends TSchema>(
  spec: Omit<OperationSpec<WorkspaceScope, I, O>, 'stability'>,
) => workspaceOperation({ stability: 'preview', ...spec })

/**
 * The HTTP binding of an operation that creates a record below `path`: POST, 201, and a `Location`.
 * @param key the output field of its id
 * @example
 * ```ts
 * const http = creates('/v1/notes')
 * http.location({ id: 'note_1' }) // '/v1/notes/note_1'
 * ```
 */
export const creates = (path: string, key = 'id') => ({
  method: 'POST' as const,
  path,
  body: '*',
  status: () => 201,
  location: (output: object) => `${path}/${(output as Readonly<Record<string, unknown>>)[key]}`,
})

/**
 * The only row of a statement.
 * @throws Problem `not_found`, which names the noun, if there is none
 * @example
 * ```ts
 * const note = await findRow<Note>(scope, 'note', sql`select id, title from notes where id = ${'note_1'}`)
 * ```
 */
export async function findRow<T extends object>(scope: Statements, noun: string, statement: Sql): Promise<T> {
  const row = await scope.row<T>(statement)
  if (row === undefined) throw notFound(noun)
  return row
}

/** The strong tag of content that has no version: the same content has the same tag. */
export const contentTag = (content: unknown): string =>
  `"${hash('sha256', JSON.stringify(content), 'base64url').slice(0, 22)}"`

/**
 * Checks a condition before a change; the statement of the change asks again for what was read.
 * @param tag that {@link contentTag} gives to what is there now @param what begins the sentence about it
 * @throws Problem `precondition_failed` with the tag
 */
export function requireMatch(ifMatch: string | undefined, tag: string, what: string): void {
  if (ifMatch === undefined || matches(ifMatch, tag, 'strong')) return
  throw new Problem('precondition_failed', {
    detail: `${what} has changed: its ETag is ${tag} now.`,
    headers: { etag: tag },
  })
}

/**
 * One page of records, ordered by a text column.
 * @param records selects all records that match, in any order
 * @param key the unique column of the result by which the page is ordered
 * @example
 * ```ts
 * const page = await listPage<Note>(scope, { page_size: 20 }, sql`select id, title from notes`)
 * const next = { page_size: 20, page_after: page.page.next }
 * ```
 */
export async function listPage<T extends object>(
  scope: Statements,
  input: PageRequest,
  records: Sql,
  key: 'id' | 'client_id' | 'host' | 'name' = 'id',
): Promise<Page<T>> {
  const { after, limit } = pageBounds(input, TEXT_KEYS)
  const column = { id: sql`r.id`, client_id: sql`r.client_id`, host: sql`r.host`, name: sql`r.name` }[key]
  const statement = sql`select * from (${records}) r where ${column} > ${after} order by ${column} limit ${limit}`
  return pageFrom(input, await scope.rows<T>(statement), (row) => (row as Record<string, unknown>)[key])
}

/**
 * All rows of pages that are read one after the other.
 * @param size of a page, which `read` asks for @param read gets what `cursor` makes of the last row, at first an empty text
 */
export async function* allRows<T>(
  size: number,
  read: (after: string) => Promise<readonly T[]>,
  cursor: (row: T) => string,
): AsyncGenerator<T> {
  let after = ''
  for (;;) {
    const rows = await read(after)
    yield* rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < size) return
    after = cursor(last)
  }
}

interface FoundPage<T> {
  readonly data: readonly T[]
  readonly page: { readonly next?: string | null }
}

/**
 * All items of the pages of an operation, which are read one after the other.
 * @param read gets the cursor of the page before, at first none
 */
export async function* allPages<T>(
  read: (from: { readonly after?: string }) => Promise<FoundPage<T>>,
): AsyncGenerator<T> {
  let after: string | undefined
  do {
    const { data, page } = await read(after === undefined ? {} : { after })
    yield* data
    after = page.next ?? undefined
  } while (after !== undefined)
}

/**
 * For `catch`: turns the violation of a constraint into `conflict` with its detail, and rethrows all other errors.
 * @param details by the name of the constraint
 * @example
 * ```ts
 * await scope
 *   .batch(sql`insert into notes (id, title) values (${scope.uuid()}, ${'Milk'})`)
 *   .catch(conflictIf({ notes_title_key: 'There is a note with this title.' }))
 * ```
 */
export const conflictIf = (details: Readonly<Record<string, string>>) => (error: unknown) => {
  const detail = details[violated(error) ?? '']
  throw detail === undefined ? error : new Problem('conflict', { detail })
}

/**
 * A problem with one field of the body.
 * @param pointer of the field (RFC 6901); its first step is the field's name
 * @param detail what is wrong with the field
 * @param summary the detail of the problem itself; by default the same
 * @example
 * ```ts
 * throw bodyProblem('/limits/users', 'The quota is one of workspaces.')
 * ```
 */
export function bodyProblem(
  pointer: string,
  detail: string,
  summary = detail,
  code: ProblemCode = 'validation_failed',
): Problem {
  const name = pointer.split('/')[1] ?? ''
  return new Problem(code, { detail: summary, errors: [{ in: 'body', name, pointer, detail }] })
}

/**
 * A problem with one member of the body, which its detail names.
 * @example
 * ```ts
 * throw fieldProblem('title', 'is empty') // its detail: 'title: is empty'
 * ```
 */
export const fieldProblem = (name: string, detail: string): Problem =>
  bodyProblem(`/${name}`, detail, `${name}: ${detail}`)

/**
 * The chain depth of what something at this depth starts or calls.
 * @throws Problem `state_conflict` with the detail above `chainDepthMax`, or what starts itself would never end
 * @example
 * ```ts
 * const chainDepth = nextChainDepth(scope.actor.chainDepth ?? 0, 'Too many executions have started one another.')
 * ```
 */
export function nextChainDepth(depth: number, detail: string): number {
  if (depth < SHARED_LIMITS.chainDepthMax) return depth + 1
  throw new Problem('state_conflict', { detail })
}

export const LIST_DIGEST_CHARS = 22

/** The digest of the list that a cursor belongs to, by all that distinguishes it from others. */
export const listDigest = (...of: readonly unknown[]): string =>
  hash('sha256', JSON.stringify(of), 'base64url').slice(0, LIST_DIGEST_CHARS)

/** The media type of JSON values, one on each line. */
export const NDJSON = 'application/x-ndjson'

/** A reply that browsers save as `<name>.ndjson`. @param name an identifier @param chunks lines of JSON */
export const ndjsonDownload = (name: string, chunks: AsyncIterable<Uint8Array>): ByteReply =>
  download(`${name}.ndjson`, NDJSON, chunks)

/** A file that is made while it is sent. */
export const download = (name: string, type: string, chunks: AsyncIterable<Uint8Array>): ByteReply => ({
  status: 200,
  headers: {
    'content-type': type,
    'content-disposition': `attachment; filename="${name}"`,
    'cache-control': 'private, no-store',
  },
  chunks,
})
