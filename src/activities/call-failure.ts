/** Fails activities with standard errors of the flow language that Temporal does not retry. */

import { ApplicationFailure } from '@temporalio/common'
import { ERRORS } from '../../flows-dsl/errors.ts'

/**
 * A final failure of one of the standard types (OWS 1.0 "Standard Error Types").
 * @param detail one sentence for people: no credential, nothing of the platform's inside
 * @param changes what this case says more exactly than its type
 */
export function callFailure(
  name: keyof typeof ERRORS,
  detail: string,
  changes: { readonly status?: number; readonly title?: string } = {},
): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, name, { ...ERRORS[name], ...changes, detail })
}

export type Fields = Readonly<Record<string, unknown>>

/** An object as it is; whatever else, as one without fields. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
}

/** @throws ApplicationFailure (authentication) that names the property, never its value */
export function textOf(given: Fields, name: string, whose: string): string {
  const value = given[name]
  if (typeof value === 'string') return value
  throw callFailure('authentication', `\`${name}\` of \`${whose}\` must be a string.`)
}
