/** Helpers that operations of several features use: read one record, read a page of records, reject one field. */

import { type Page, type PageRequest, pageBounds, pageFrom } from '../core/page.ts'
import { notFound, Problem, type ProblemCode } from '../core/problem.ts'
import type { Statements } from '../infra/postgres/database.ts'
import type { Sql } from '../infra/postgres/sql.ts'

/** The only row of a statement. @throws Problem `not_found`, which names the noun, if there is none */
export async function findRow<T extends object>(scope: Statements, noun: string, statement: Sql): Promise<T> {
  const row = await scope.row<T>(statement)
  if (row === undefined) throw notFound(noun)
  return row
}

/** One page of records. @param statement selects at most `limit` records behind the id `after`, by id */
export async function listPage<T extends object>(
  scope: Statements,
  input: PageRequest,
  statement: (after: string, limit: number) => Sql,
): Promise<Page<T>> {
  const { after, limit } = pageBounds(input)
  return pageFrom(input, await scope.rows<T>(statement(after, limit)))
}

/**
 * A problem with one field of the body.
 * @param pointer of the field (RFC 6901); its first step is the field's name
 * @param detail what is wrong with the field
 * @param summary the detail of the problem itself; by default the same
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
