/** Knows the two halves of `call: openapi`: reading the document, and the request that comes of it. */

import { isObject, type Json, type JsonObject } from '../../../flows-dsl/json.ts'

/** What the document is read with: whoever reads it has no need of the credentials for the operation. */
export function documented(given: JsonObject): JsonObject {
  const { authentication: _, ...rest } = given
  return rest
}

/** The arguments of `call: http`: the request that the document says, and what the flow says besides. */
export function requested(planned: Json, given: JsonObject): JsonObject {
  const { authentication, output = 'content', redirect = false } = given
  const request = isObject(planned) ? planned : {}
  return { ...request, output, redirect, ...(authentication !== undefined && { authentication }) }
}
