/** Failures of calls of a flow, and the fields of their arguments: standard errors of the language, which Temporal does not retry. */

import { ApplicationFailure } from '@temporalio/common'
import { ERRORS } from '../../flows-dsl/errors.ts'

/**
 * Creates a final failure of a standard type (OWS 1.0 "Standard Error Types").
 * @param detail one sentence for people, without credentials and without internals of the platform
 * @param changes fields that replace those of the type
 */
export function callFailure(
  name: keyof typeof ERRORS,
  detail: string,
  changes: { readonly status?: number; readonly title?: string } = {},
): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, name, { ...ERRORS[name], ...changes, detail })
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
