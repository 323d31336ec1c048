/**
 * Reads one operation of an OpenAPI document: its method, server, parameters and body, in one form for all versions.
 * Documents are untrusted, so only the references that the operation needs are followed, and within limits; libraries
 * dereference a whole document without limits (decision 29).
 */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { unescaped } from '../../../flows-dsl/json.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { percentDecoded, type Style } from '../../infra/http-client/parameter-styles.ts'
import { callFailure, type Fields, fieldsOf } from '../call-failure.ts'
import { FORM, MULTIPART, mediaTypeOf } from './request-body.ts'

type ParameterLocation = 'path' | 'query' | 'header' | 'cookie'

export interface Body {
  readonly media: string
  readonly required: boolean
  /** The name of the parameter that is the whole body. */
  readonly name: string
  /** Names of parameters that are properties of the body; undefined if any name is allowed. */
  readonly fields: readonly string[] | undefined
  /** The required ones of these. */
  readonly needed: readonly string[]
}

export interface Parameter extends Style {
  readonly location: ParameterLocation
  readonly required: boolean
  /** The parameter has `content`, so its value is sent as JSON. */
  readonly json: boolean
}

export interface Operation {
  readonly method: string
  /** The path template, with `{name}`s. */
  readonly path: string
  readonly server: URL
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch']
const LOCATIONS = ['path', 'query', 'header', 'cookie']
/** Names of header parameters that are ignored (OpenAPI 3.1 "Parameter Object"): other parts of a document define these headers. */
const IGNORED_HEADERS = new Set(['accept', 'content-type', 'authorization'])

/**
 * Finds an operation by its id.
 * @param url the URL of the document, to which its servers may be relative
 * @throws ApplicationFailure (configuration) if there is none, or the document is invalid
 */
export function operationOf(document: Fields, id: string, url: URL): Operation {
  const ids: string[] = []
  for (const [path, given] of Object.entries(fieldsOf(document['paths']))) {
    const item = resolved(document, given)
    for (const method of METHODS) {
      const operation = Object.hasOwn(item, method) ? fieldsOf(item[method]) : {}
      if (operation['operationId'] === id) return described({ document, path, method, item, operation, url })
      if (typeof operation['operationId'] === 'string') ids.push(operation['operationId'])
    }
  }
  const near = nearest(id, ids.slice(0, NAMES_MAX))
  const hint = near === undefined ? '' : ` Did you mean \`${near}\`?`
  throw callFailure('configuration', `The document has no operation \`${id.slice(0, 200)}\`.${hint}`)
}

/** Ids that are compared for a suggestion, since each comparison costs time. */
const NAMES_MAX = 300

interface Found {
  readonly document: Fields
  readonly path: string
  readonly method: string
  readonly item: Fields
  readonly operation: Fields
  readonly url: URL
}

function described(found: Found): Operation {
  const { document, path, method, item, operation } = found
  if (!path.startsWith('/'))
    throw callFailure('configuration', `The path \`${path}\` must begin with a slash.`)
  const given = parametersOf(document, item, operation)
  const isOld = document['swagger'] !== undefined
  const parameters = given
    .filter(hasLocation)
    .map((one) => (isOld ? oldParameter(one) : parameterOf(one)))
    .filter(({ location, name }) => location !== 'header' || !IGNORED_HEADERS.has(name.toLowerCase()))
  const body = isOld ? formBodyOf(document, operation, given) : bodyOf(document, operation)
  const server = serverOf(found)
  return { method: method.toUpperCase(), path, server, parameters, ...(body !== undefined && { body }) }
}

/** The parameters of the path and the operation; the operation's replace those of the path. */
function parametersOf(document: Fields, item: Fields, operation: Fields): readonly Fields[] {
  const byKey = new Map<string, Fields>()
  for (const list of [item['parameters'], operation['parameters']]) {
    for (const given of Array.isArray(list) ? list : []) {
      const parameter = resolved(document, given)
      byKey.set(`${String(parameter['in'])} ${String(parameter['name'])}`, parameter)
    }
  }
  return [...byKey.values()]
}

const hasLocation = (parameter: Fields) =>
  typeof parameter['name'] === 'string' && LOCATIONS.includes(String(parameter['in']))

/** The fields that are the same in all versions. */
function common(given: Fields) {
  const location = given['in'] as ParameterLocation
  const required = location === 'path' || given['required'] === true
  return { name: String(given['name']), location, required }
}

function parameterOf(given: Fields): Parameter {
  const { location } = common(given)
  const defaultStyle = location === 'query' || location === 'cookie' ? 'form' : 'simple'
  const style = typeof given['style'] === 'string' ? given['style'] : defaultStyle
  const explode = typeof given['explode'] === 'boolean' ? given['explode'] : style === 'form'
  const reserved = given['allowReserved'] === true
  return { ...common(given), style, explode, reserved, json: given['content'] !== undefined }
}

/** Formats of Swagger 2.0 (`collectionFormat`) with their styles; `tabDelimited` is our own. */
const FORMATS: Readonly<Record<string, string>> = {
  ssv: 'spaceDelimited',
  tsv: 'tabDelimited',
  pipes: 'pipeDelimited',
}

function oldParameter(given: Fields): Parameter {
  const format = String(given['collectionFormat'] ?? 'csv')
  const style = FORMATS[format] ?? (given['in'] === 'path' || given['in'] === 'header' ? 'simple' : 'form')
  return { ...common(given), style, explode: format === 'multi', reserved: false, json: false }
}

/** `requestBody` of OpenAPI 3. */
function bodyOf(document: Fields, operation: Fields): Body | undefined {
  if (operation['requestBody'] === undefined) return undefined
  const given = resolved(document, operation['requestBody'])
  const content = fieldsOf(given['content'])
  const media = mediaOf(Object.keys(content))
  const key = Object.keys(content).find((one) => one === media || isAny(one)) ?? media
  const schema = fieldsOf(content[key])['schema']
  const fields = schema === undefined ? undefined : propertiesOf(document, schema)
  return { media, required: given['required'] === true, name: 'body', fields, needed: [] }
}

/** The parameter `in: body`, or those `in: formData`, of Swagger 2.0. */
function formBodyOf(document: Fields, operation: Fields, parameters: readonly Fields[]): Body | undefined {
  const consumes = operation['consumes'] ?? document['consumes']
  const types = Array.isArray(consumes) ? consumes.map(String) : []
  const whole = parameters.find((one) => one['in'] === 'body')
  if (whole !== undefined) {
    const fields = propertiesOf(document, whole['schema'])
    const media = mediaOf(types.length === 0 ? ['application/json'] : types)
    return { media, required: whole['required'] === true, name: String(whole['name']), fields, needed: [] }
  }
  const form = parameters.filter((one) => one['in'] === 'formData')
  if (form.length === 0) return undefined
  const media = mediaOf(
    types.length === 0 ? [FORM] : types.filter((one) => one === FORM || mediaTypeOf(one) === MULTIPART),
  )
  const needed = form.filter((one) => one['required'] === true).map((one) => String(one['name']))
  return {
    media,
    required: needed.length > 0,
    name: 'body',
    fields: form.map((one) => String(one['name'])),
    needed,
  }
}

const isAny = (type: string) => type === '*/*' || type === 'application/*'

/** The media type to send: JSON if the operation accepts it, else a form, a multipart form or text. */
function mediaOf(types: readonly string[]): string {
  const plain = types.map(mediaTypeOf)
  const json = plain.findIndex((type) => type === 'application/json' || type.endsWith('+json'))
  if (json >= 0) return types[json] ?? 'application/json'
  if (plain.some(isAny)) return 'application/json'
  const other = plain.findIndex((type) => type === FORM || type === MULTIPART || type.startsWith('text/'))
  if (other >= 0) return types[other] ?? FORM
  const list = types.map((type) => type.slice(0, 100)).join(', ')
  throw callFailure(
    'configuration',
    `The operation accepts a body only as ${list || 'nothing'}, which is not supported.`,
  )
}

/** Names of the properties of a schema, including those of its `allOf`; undefined if it has none. Visits each schema once. */
function propertiesOf(document: Fields, schema: unknown): readonly string[] | undefined {
  const names = new Set<string>()
  const seen = new Set<Fields>()
  const left = [resolved(document, schema)]
  for (let at = left.pop(); at !== undefined; at = left.pop()) {
    if (seen.has(at)) continue
    seen.add(at)
    const { properties, allOf } = at
    for (const name of Object.keys(fieldsOf(properties))) names.add(name)
    for (const part of Array.isArray(allOf) ? allOf : []) left.push(resolved(document, part))
  }
  return names.size === 0 ? undefined : [...names]
}

/** The first server of the operation; without one that of its path, then that of the document. */
function serverOf({ document, item, operation, url }: Found): URL {
  const text =
    document['swagger'] === undefined
      ? newServer([operation, item, document])
      : oldServer(document, operation, url)
  const server = URL.canParse(text, url.href) ? new URL(text, url) : undefined
  if (server !== undefined && /^https?:$/.test(server.protocol)) return server
  throw callFailure('configuration', 'The OpenAPI document names no server that is an http or https URL.')
}

/** The first of `servers`, which may be relative to the document, with the defaults of its variables. */
function newServer(levels: readonly Fields[]): string {
  for (const { servers } of levels) {
    const server = Array.isArray(servers) ? fieldsOf(servers[0]) : {}
    if (typeof server['url'] !== 'string') continue
    const variables = fieldsOf(server['variables'])
    return server['url'].replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
      const variable = Object.hasOwn(variables, name) ? fieldsOf(variables[name]) : {}
      return typeof variable['default'] === 'string' ? variable['default'] : whole
    })
  }
  return '/'
}

/** The server by `schemes`, `host` and `basePath` of Swagger 2.0. Scheme and host default to those of the document. */
function oldServer(document: Fields, operation: Fields, url: URL): string {
  const given = Array.isArray(operation['schemes']) ? operation['schemes'] : document['schemes']
  const schemes: readonly unknown[] = Array.isArray(given) ? given : []
  const own = url.protocol.slice(0, -1)
  const scheme =
    schemes.length === 0 || schemes.includes(own) ? own : schemes.includes('https') ? 'https' : schemes[0]
  const host = typeof document['host'] === 'string' ? document['host'] : url.host
  const path = typeof document['basePath'] === 'string' ? document['basePath'] : '/'
  return `${String(scheme)}://${host}${path.startsWith('/') ? '' : '/'}${path}`
}

/**
 * Follows the `$ref` of a value, if it has one.
 * @throws ApplicationFailure (configuration) for a `$ref` that leaves the document, points to nothing, or is circular
 */
function resolved(document: Fields, value: unknown): Fields {
  let found = fieldsOf(value)
  for (let count = 0; typeof found['$ref'] === 'string'; count++) {
    const ref = found['$ref']
    if (count === FLOW_LIMITS.openApi.refsMax) throw refused(ref, 'is circular or too indirect')
    if (ref.length > FLOW_LIMITS.openApi.refCharsMax) throw refused(ref, 'is too long')
    if (!ref.startsWith('#')) throw refused(ref, 'leaves the document, which is not supported')
    found = resolvePointer(document, ref)
  }
  return found
}

/** Resolves a JSON pointer in a URI fragment (RFC 6901 §6). */
function resolvePointer(document: Fields, ref: string): Fields {
  let at: unknown = document
  for (const part of ref.slice(1).split('/').slice(1)) {
    const key = unescaped(percentDecoded(part))
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key))
      throw refused(ref, 'points to nothing')
    at = (at as Fields)[key]
  }
  return fieldsOf(at)
}

function refused(ref: string, why: string) {
  return callFailure('configuration', `The OpenAPI document has a \`$ref\` that ${why}: ${ref.slice(0, 200)}`)
}
