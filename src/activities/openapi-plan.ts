/** `call: openapi` of the flow language (OWS 1.0 "OpenAPI Call"): arguments in, the HTTP request that they mean out. */

import type { Way } from './http-auth.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'
import type { Documents } from './openapi-document.ts'
import { operationOf } from './openapi-operation.ts'
import { type HttpRequest, requestOf } from './openapi-request.ts'

/**
 * Reads the document, and sends nothing to what it describes: that is done by whoever knows now which method it is.
 * @param call `{document: {endpoint, authentication?}, operationId, parameters?}`
 * @param workspace whose call it is
 * @throws ApplicationFailure (final) for faults of the document or of the arguments. @throws Problem where no document
 *   came
 */
export async function planOpenApi(
  call: Fields,
  workspace: string,
  documents: Documents,
  way: Way,
): Promise<HttpRequest> {
  const { document, url } = await documents.at(fieldsOf(call['document']), workspace, way)
  const operation = operationOf(document, String(call['operationId']), url)
  return requestOf(operation, fieldsOf(call['parameters']))
}
