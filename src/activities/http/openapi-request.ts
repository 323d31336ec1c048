/** Builds an HTTP request from the arguments of `call: openapi` (OWS 1.0 "OpenAPI Call", OpenAPI 3.1 "Style Values"). */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import type { CallClients } from './authentication.ts'
import type { Documents } from './openapi-document.ts'
import {
  type Body,
  FORM,
  type Operation,
  operationOf,
  type Parameter,
  type Style,
} from './openapi-operation.ts'

/** The arguments of `call: http` that say the same; nothing of the authentication is in them. */
export interface HttpRequest {
  readonly method: string
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

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
  way: CallClients,
): Promise<HttpRequest> {
  const { document, url } = await documents.at(fieldsOf(call['document']), workspace, way)
  const operation = operationOf(document, String(call['operationId']), url)
  return requestOf(operation, fieldsOf(call['parameters']))
}

/**
 * @param given the parameters by name; null is one that is not given
 * @throws ApplicationFailure (validation) for parameters that are missing, unknown, or cannot be sent
 */
export function requestOf(operation: Operation, given: Fields): HttpRequest {
  const values = new Map(Object.entries(given).filter(([, value]) => value !== null && value !== undefined))
  const { parameters, method } = operation
  checkThere(operation, values)
  const body = bodyValue(operation, values)
  const of = (place: Parameter['place']) =>
    parameters
      .filter((one) => one.place === place && values.has(one.name))
      .map((one) => [one, one.json ? JSON.stringify(values.get(one.name)) : values.get(one.name)] as const)
  const url = new URL(operation.server)
  url.pathname = url.pathname.replace(/\/$/, '') + pathOf(operation, of('path'))
  url.search = joined(
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

type Given = readonly (readonly [Parameter, unknown])[]

/** Each fault by the name of its parameter. */
function checkThere({ parameters, body }: Operation, values: ReadonlyMap<string, unknown>): void {
  const missing = parameters
    .filter(({ name, required }) => required && !values.has(name))
    .map(({ name }) => name)
  if (body !== undefined && !values.has(body.name))
    missing.push(...body.needed.filter((name) => !values.has(name)))
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

/** The parameter that is the body, or all that are none of the others, as its properties. */
function bodyValue(
  { parameters, body }: Operation,
  values: ReadonlyMap<string, unknown>,
): string | undefined {
  if (body === undefined) return undefined
  const taken = new Set(parameters.map(({ name }) => name))
  const others = [...values].filter(([name]) => !taken.has(name))
  const [whole] = others.filter(([name]) => name === body.name || name === 'body')
  if (whole !== undefined && others.length > 1) {
    const detail = `Beside \`${whole[0]}\`, which is the whole body, nothing else can be in it.`
    throw callFailure('validation', detail)
  }
  if (whole !== undefined) return written(body, whole[1])
  if (others.length > 0) return written(body, Object.fromEntries(others))
  if (body.required)
    throw callFailure('validation', `The operation needs a body: the parameter \`${body.name}\`.`)
  return undefined
}

/** A value stays within its segment, and no segment becomes one that leads elsewhere. */
function pathOf({ path }: Operation, given: Given): string {
  const byName = new Map(given.map((one) => [one[0].name, one]))
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const [one, value] = byName.get(name) ?? []
    if (one === undefined)
      throw callFailure('configuration', `The path needs \`${name}\`, which is no parameter.`)
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
  throw callFailure('validation', `The parameter \`${name}\` has characters that no header has.`)
}

function cookiesOf(given: Given): readonly (readonly [string, string])[] {
  const pairs = given.flatMap(([one, value]) => queryPairs(one, value))
  const text = joined(pairs, '; ')
  return text === '' ? [] : [['cookie', text]]
}

/**
 * The body as it is sent.
 * @throws ApplicationFailure (validation) where the value cannot be written as that type
 */
function written({ media }: Body, value: unknown): string {
  const type = media.split(';')[0]?.trim().toLowerCase() ?? ''
  if (type.startsWith('text/')) return typeof value === 'string' ? value : JSON.stringify(value)
  if (type !== FORM) return JSON.stringify(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw callFailure('validation', 'The body must be an object: it is sent as a form.')
  }
  const pairs = Object.entries(value).flatMap(([name, one]) =>
    queryPairs({ name, style: 'form', explode: true, reserved: false }, one),
  )
  return joined(pairs, '&')
}

type Pair = readonly [name: string, value: string]

const joined = (pairs: readonly Pair[], between: string) => pairs.map((pair) => pair.join('=')).join(between)

/** Between the items of a list that is one text. */
const BETWEEN: Readonly<Record<string, string>> = {
  form: ',',
  simple: ',',
  spaceDelimited: '%20',
  pipeDelimited: '%7C',
  tabDelimited: '%09',
}

/** RFC 3986: all but unreserved characters; half a surrogate pair becomes U+FFFD. */
function percentEncoded(text: string, reserved = false): string {
  const encoded = encodeURIComponent(text.replace(/\p{Surrogate}/gu, '\ufffd'))
  const strict = encoded.replaceAll(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
  // Never what would end the value, or mean something else in it: & = + # %.
  return reserved
    ? strict.replaceAll(/%(?:2F|3A|3F|40|21|24|27|28|29|2A|2C|3B)/g, decodeURIComponent)
    : strict
}

/** What is no list or object as text; what is within one of those, as JSON. */
function plain(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The pairs of a query, or of a form: names and values percent-encoded. */
function queryPairs(parameter: Style, value: unknown): readonly Pair[] {
  const { name, style, explode, reserved } = parameter
  const encode = (one: unknown) => percentEncoded(plain(one), reserved)
  const key = percentEncoded(name)
  if (typeof value !== 'object' || value === null) return [[key, encode(value)]]
  if (style === 'deepObject') return deepPairs(key, value, encode)
  const between = BETWEEN[style] ?? ','
  if (Array.isArray(value)) {
    return explode ? value.map((one) => [key, encode(one)]) : [[key, value.map(encode).join(between)]]
  }
  const members = Object.entries(value).map(([member, one]) => [percentEncoded(member), encode(one)] as const)
  return explode ? members : [[key, members.flat().join(between)]]
}

/** `name[member]=value`, and so on below. */
function deepPairs(key: string, value: object, encode: (one: unknown) => string): readonly Pair[] {
  return Object.entries(value).flatMap(([member, one]) => {
    const below = Array.isArray(value) ? key : `${key}[${percentEncoded(member)}]`
    return typeof one === 'object' && one !== null
      ? deepPairs(below, one, encode)
      : [[below, encode(one)] as const]
  })
}

/** The text of a segment of a path: `simple`, `label` or `matrix`. */
function segmentOf({ name, style, explode }: Style, value: unknown): string {
  const encode = (one: unknown) => percentEncoded(plain(one))
  const parts = partsOf(value, explode, encode)
  if (style === 'label') return `.${parts.join(explode ? '.' : ',')}`
  if (style !== 'matrix') return parts.join(',')
  const key = percentEncoded(name)
  if (!explode || typeof value !== 'object') return `;${key}=${parts.join(',')}`
  return parts.map((part) => (Array.isArray(value) ? `;${key}=${part}` : `;${part}`)).join('')
}

/** A header has the style `simple`, and nothing in it is percent-encoded. */
function headerOf({ explode }: Style, value: unknown): string {
  return partsOf(value, explode, plain).join(',')
}

function partsOf(value: unknown, explode: boolean, encode: (one: unknown) => string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [encode(value)]
  if (Array.isArray(value)) return value.map(encode)
  return Object.entries(fieldsOf(value)).flatMap(([member, one]) =>
    explode ? [`${encode(member)}=${encode(one)}`] : [encode(member), encode(one)],
  )
}
