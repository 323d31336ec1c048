/** A problem with one field of the body. */

import { Problem, type ProblemCode } from '../core/problem.ts'

/**
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
