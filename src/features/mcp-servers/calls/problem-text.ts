/** A problem as the result of a tool: a text that a model can act on, and the members of the problem document. */

import type { InputError, Problem } from '../../../core/problem.ts'
import { redactText } from '../../../core/redact.ts'

/** Errors of an input and diagnostics of a source, together. */
const ERRORS_SHOWN_MAX = 10

/** `code: detail` in the first line, then the next step, then the errors that the detail does not name, one a line. */
export function problemText(problem: Problem): string {
  const { code, message, fullHint, errors, members } = problem
  const { diagnostics } = members
  const next = followable(fullHint)
  const lines = [
    ...errors.filter((error) => !isNamedIn(message, error)).map(errorLine),
    ...(Array.isArray(diagnostics) ? diagnostics.map(diagnosticLine) : []),
  ]
  const more = lines.length - ERRORS_SHOWN_MAX
  const listed = more > 0 ? [...lines.slice(0, ERRORS_SHOWN_MAX), `and ${more} more`] : lines
  return redactText([`${code}: ${message}`, ...(next === '' ? [] : [next]), ...listed].join('\n'))
}

/**
 * The part of a hint that an agent can follow. It has a text, without the members of the problem document or headers, no command
 * line, and no argument that gives a call more time.
 */
function followable(hint: string): string {
  const text = hint.replaceAll(/: `(?:npx )?tenon [^`]*`(?=[.;,])/g, '')
  const parts = text.split(/(?<=[.;]) /).filter((part) => !UNFOLLOWABLE.test(part))
  const next = parts.join(' ').replace(/;$/, '.')
  return next.replace(/^[a-z]/, (letter) => letter.toUpperCase())
}

const UNFOLLOWABLE = /^See (`|the `)|^operators\b|\btenon [a-z]+ [a-z<]|^Raise the `timeout`/i

/** The members of the problem document (RFC 9457), without `instance` and `request_id`. */
export function problemMembers(problem: Problem): Record<string, unknown> {
  const { code, row, detail, fullHint, errors, members } = problem
  const document = {
    type: row.type ?? `/docs/problems/${code}`,
    title: row.title,
    status: row.status,
    ...(detail !== undefined && { detail }),
    code,
    hint: fullHint,
    ...(errors.length > 0 && { errors }),
    ...members,
  }
  return JSON.parse(redactText(JSON.stringify(document))) as Record<string, unknown>
}

const isNamedIn = (text: string, { name, pointer, detail }: InputError): boolean =>
  text.includes(`${name}: ${detail}`) || text.includes(`${pointer} ${detail}`)

const errorLine = ({ name, pointer, detail }: InputError): string => `${pointer || name}: ${detail}`

/** A diagnostic of the source of a flow or a function. */
interface Diagnostic {
  readonly line?: number
  readonly column?: number
  readonly pointer?: string
  readonly message?: string
  readonly hint?: string
}

function diagnosticLine(fault: unknown): string {
  const { line, column, pointer, message, hint } = Object(fault) as Diagnostic
  const place = [line === undefined ? '' : `${line}:${column}`, pointer].filter(Boolean).join(' ')
  return [place, message, hint && `(${hint})`].filter(Boolean).join(' ')
}
