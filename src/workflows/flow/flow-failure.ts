/** The failure that a flow ends with: what operators may read of an error, which a flow can make of its data. */

import { type ErrorObject, REJECTED, standardError } from '../../../flows-dsl/errors.ts'
import { OpenFailure } from '../failure-converter.ts'

/** In place of a type that the flow has given, and may have computed. */
const OWN = 'https://tenon.dev/errors/raised'

/** @param ir the compiled flow: a place is shown where it is one of its tasks */
export function failureOf(error: ErrorObject, ir: unknown): OpenFailure {
  const { type, status, title, detail, instance } = error
  const standard = standardError(type)
  const shown = standard?.type ?? (type === REJECTED.type ? type : OWN)
  const name = shown.slice(shown.lastIndexOf('/') + 1)
  const place = isPlace(instance, ir) ? ` at ${instance}` : ''
  return new OpenFailure(`${name} (${status})${place}`, `${title}: ${detail}`, shown, error)
}

function isPlace(instance: string, ir: unknown): boolean {
  return instance.length > 1 && JSON.stringify(ir).includes(`"pointer":${JSON.stringify(instance)}`)
}
