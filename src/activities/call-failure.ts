/** Failures of calls of a flow, and the fields of their arguments: standard errors of the language, which Temporal does not retry. */

import { ApplicationFailure } from '@temporalio/common'
import { ERRORS } from '../../flows-dsl/errors.ts'
import type { Problem } from '../core/problem.ts'
import type { CallFailure } from './contract.ts'

/**
 * Creates a final failure of a standard type (OWS 1.0 "Standard Error Types").
 * @param detail one sentence for people, without credentials and without internals of the platform
 * @param changes fields that replace those of the type, or are added
 */
export function callFailure(
  name: keyof typeof ERRORS,
  detail: string,
  changes: Partial<Omit<CallFailure, 'type' | 'detail'>> = {},
): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, name, { ...ERRORS[name], ...changes, detail })
}

const TYPES: Readonly<Record<number, keyof typeof ERRORS>> = {
  400: 'validation',
  401: 'authentication',
  403: 'authorization',
  408: 'timeout',
  504: 'timeout',
  503: 'communication',
}

/** Problems with another server, which flows see as communication errors. */
const COMMUNICATION: ReadonlySet<string> = new Set(['upstream_invalid', 'upstream_unavailable'])

/** A Problem as a flow sees it (OWS 1.0 "Standard Error Types"), with its code as `$error.code`. */
export function failureOf({ code, row, message: detail }: Problem): CallFailure {
  const { status, title } = row
  // A timeout is the same error, whether the client or the timer of the flow notices it first.
  if (code === 'upstream_timeout') return { ...ERRORS.timeout, detail, code }
  const fallback = status < 500 ? 'validation' : 'runtime'
  const name = COMMUNICATION.has(code) ? 'communication' : (TYPES[status] ?? fallback)
  return { type: ERRORS[name].type, status, title, detail, code }
}

export type Fields = Readonly<Record<string, unknown>>

/** Returns an object unchanged, and an empty object for any other value. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

/** Reads a property that must be a string. @throws ApplicationFailure (authentication) that names the property, never its value */
export function textOf(given: Fields, name: string, owner: string): string {
  const value = given[name]
  if (typeof value === 'string') return value
  throw callFailure('authentication', `\`${name}\` of \`${owner}\` must be a string.`)
}
