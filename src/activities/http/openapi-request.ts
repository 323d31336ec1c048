/** Builds an HTTP request from the arguments of `call: openapi` (OWS 1.0 "OpenAPI Call", OpenAPI 3.1 "Style Values"). */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { headerOf, joinPairs, queryPairs, segmentOf } from '../../infra/http-client/parameter-styles.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import type { CallClients } from './authentication.ts'
import type { DocumentReader, Documents } from './openapi-document.ts'
import { type Body, type Operation, operationOf, type Parameter } from './openapi-operation.ts'
import { FORM, MULTIPART, mediaTypeOf } from './request-body.ts'

/** The equivalent arguments of `call: http`, without authentication. */
export interface HttpRequest {
  readonly method: string
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  /** Text, or an object that is sent as a multipart form. */
  readonly body?: string | Fields
}

/**
 * Reads the document and builds the request, without sending it. The workflow sends it by a second activity, since the method
 * decides whether the request may be retried.
 * @param call `{document: {endpoint, authentication?}, operationId, parameters?}`
 * @throws ApplicationFailure (final) for an invalid document or invalid arguments. @throws Problem if the server of the
 *   document does not respond
 */
export async function planOpenApi(
  call: Fields,
  reader: DocumentReader,
  documents: Documents,
  clients: CallClients,
): Promise<HttpRequest> {
  const { document, url } = await documents.get(fieldsOf(call['document']), reader, clients)
  const operation = operationOf(document, String(call['operationId']), url)
  return requestOf(operation, fieldsOf(call['parameters']))
}

/**
 * Builds the request of an operation.
 * @param args the parameters by name; null counts as absent
 * @throws ApplicationFailure (validation) for parameters that are missing, unknown, or cannot be sent
 */
export function requestOf(operation: Operation, args: Fields): HttpRequest {
  const values = new Map(Object.entries(args).filter(([, value]) => value !== null && value !== undefined))
  const { parameters, method } = operation
  checkNames(operation, values)
  const body = bodyValue(operation, values)
  const of = (location: Parameter['location']) =>
    parameters
      .filter((one) => one.location === location && values.has(one.name))
      .map((one) => [one, one.json ? JSON.stringify(values.get(one.name)) : values.get(one.name)] as const)
  const url = new URL(operation.server)
  url.pathname = url.pathname.replace(/\/$/, '') + pathOf(operation, of('path'))
  url.search = joinPairs(
    of('query').flatMap(([one, value]) => queryPairs(one, value)),
    '&',
  )
  url.hash = ''
  const headers = Object.fromEntries([
    ...of('header').map(([one, value]) => [one.name.toLowerCase(), headerText(one, headerOf(one, value))]),
    ...cookiesOf(of('cookie')),
    ...(body === undefined ? [] : [['content-type', operation.body?.media ?? '']]),
  ])
  return { method, endpoint: url.href, headers, ...(body !== undefined && { body }) }
}

type Values = readonly (readonly [Parameter, unknown])[]

/** Rejects missing and unknown parameters, by their names. */
function checkNames({ parameters, body }: Operation, values: ReadonlyMap<string, unknown>): void {
  const missing = parameters
    .filter(({ name, required }) => required && !values.has(name))
    .map(({ name }) => name)
  if (body !== undefined && !values.has(body.name))
    missing.push(...body.requiredFields.filter((name) => !values.has(name)))
  if (missing.length > 0) {
    const list = missing.map((name) => `\`${name}\``).join(', ')
    throw callFailure('validation', `The operation needs parameters that are not given: ${list}.`)
  }
  const known = [
    ...parameters.map(({ name }) => name),
    ...(body === undefined ? [] : [body.name, ...(body.fields ?? [])]),
  ]
  if (body !== undefined && body.fields === undefined) return
  const names = new Set(known)
  for (const name of values.keys()) {
    if (names.has(name) || (body !== undefined && name === 'body')) continue
    const near = nearest(name, known)
    const hint = near === undefined ? '' : ` Did you mean \`${near}\`?`
    throw callFailure('validation', `The operation has no parameter \`${name.slice(0, 200)}\`.${hint}`)
  }
}

/** The body: the parameter that is the whole body, or an object of all values that are not other parameters. */
function bodyValue(
  { parameters, body }: Operation,
  values: ReadonlyMap<string, unknown>,
): string | Fields | undefined {
  if (body === undefined) return undefined
  const parameterNames = new Set(parameters.map(({ name }) => name))
  const others = [...values].filter(([name]) => !parameterNames.has(name))
  const [whole] = others.filter(([name]) => name === body.name || name === 'body')
  if (whole !== undefined && others.length > 1) {
    const detail = `\`${whole[0]}\` is the whole body, so no other parameter can be a part of it.`
    throw callFailure('validation', detail)
  }
  if (whole !== undefined) return serializeBody(body, whole[1])
  if (others.length > 0) return serializeBody(body, Object.fromEntries(others))
  if (body.required)
    throw callFailure('validation', `The operation needs a body: the parameter \`${body.name}\`.`)
  return undefined
}

/** Fills the path template. A value cannot leave its segment, and `.` and `..` are rejected, as they would lead to another path. */
function pathOf({ path }: Operation, values: Values): string {
  const byName = new Map(values.map((one) => [one[0].name, one]))
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const [one, value] = byName.get(name) ?? []
    if (one === undefined)
      throw callFailure('configuration', `The path needs \`${name}\`, which is not declared as a parameter.`)
    const text = segmentOf(one, value)
    if (text === '')
      throw callFailure('validation', `The parameter \`${name}\` of the path must not be empty.`)
    return text
  })
  if (!filled.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return filled
  throw callFailure('validation', 'A parameter of the path must not be `.` or `..`.')
}

function headerText({ name }: Parameter, text: string): string {
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) return text
  throw callFailure('validation', `The parameter \`${name}\` has characters that headers must not have.`)
}

function cookiesOf(values: Values): readonly (readonly [string, string])[] {
  const pairs = values.flatMap(([one, value]) => queryPairs(one, value))
  const text = joinPairs(pairs, '; ')
  return text === '' ? [] : [['cookie', text]]
}

/**
 * Serialises the body for its media type.
 * @throws ApplicationFailure (validation) if the value cannot be represented in that type
 */
function serializeBody({ media }: Body, value: unknown): string | Fields {
  const type = mediaTypeOf(media)
  if (type.startsWith('text/')) return typeof value === 'string' ? value : JSON.stringify(value)
  if (type !== FORM && type !== MULTIPART) return JSON.stringify(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw callFailure('validation', 'The body must be an object, because it is sent as a form.')
  }
  const fields = Object.entries(value).filter(([, one]) => one !== null && one !== undefined)
  // Encoded when it is sent, since its files are bytes.
  if (type === MULTIPART) return Object.fromEntries(fields)
  const pairs = fields.flatMap(([name, one]) =>
    queryPairs({ name, style: 'form', explode: true, reserved: false }, one),
  )
  return joinPairs(pairs, '&')
}
