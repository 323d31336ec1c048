/** Knows how to read the properties of an authentication, whoever has written them. */

import { callFailure } from '../call-failure.ts'

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
