/**
 * The operations of an OpenAPI document: parameters, body, response and server, in one form for Swagger 2.0, OpenAPI 3.0 and 3.1. Only what a
 * caller asks for is dereferenced.
 */

import type { Style } from '../http-client/parameter-styles.ts'
import { type Fields, fieldsOf, listOf, resolve } from './document.ts'

/** An operation as the document has it, with its path item. */
export interface DocumentOperation {
  /** `operationId`, if it is a text. */
  readonly id: string | undefined
  /** In lower case. */
  readonly method: string
  /** The path template, with `{name}`s. */
  readonly path: string
  readonly item: Fields
  readonly fields: Fields
}

/** Without TRACE, which is about the server. */
const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options']

/** @throws InvalidDocument for a path item with an invalid `$ref` */
export function* operationsIn(document: Fields): Generator<DocumentOperation> {
  for (const [path, reference] of Object.entries(fieldsOf(document['paths']))) {
    const item = resolve(document, reference).value
    for (const method of METHODS) {
      if (!Object.hasOwn(item, method)) continue
      const fields = fieldsOf(item[method])
      const { operationId } = fields
      yield { id: typeof operationId === 'string' ? operationId : undefined, method, path, item, fields }
    }
  }
}

const LOCATIONS = ['path', 'query', 'header', 'cookie'] as const

/** A parameter (OpenAPI "Parameter Object"). */
export interface DocumentParameter extends Style {
  readonly location: (typeof LOCATIONS)[number]
  readonly required: boolean
  /** It has `content`, so its value is sent as JSON. */
  readonly json: boolean
  /** Its schema, which may be a reference, and its description. */
  readonly schema: unknown
  readonly description: unknown
}

/**
 * The parameters of an operation, other than those of Swagger 2.0 that are the body.
 * @throws InvalidDocument for an invalid `$ref`
 */
export function parametersOf(document: Fields, operation: DocumentOperation): DocumentParameter[] {
  return mergedParameters(document, operation).flatMap((fields) => {
    const location = LOCATIONS.find((one) => one === fields['in'])
    const { name, required, description } = fields
    if (location === undefined || typeof name !== 'string') return []
    const isRequired = location === 'path' || required === true
    return [{ name, location, required: isRequired, description, ...styleOf(document, fields, location) }]
  })
}

/** Those of the path item and of the operation; the operation's replace those of the path item. */
function mergedParameters(document: Fields, { item, fields }: DocumentOperation): readonly Fields[] {
  const byKey = new Map<string, Fields>()
  for (const reference of [...listOf(item['parameters']), ...listOf(fields['parameters'])]) {
    const { value } = resolve(document, reference)
    byKey.set(`${String(value['in'])} ${String(value['name'])}`, value)
  }
  return [...byKey.values()]
}

const STYLES = ['simple', 'label', 'matrix', 'form', 'spaceDelimited', 'pipeDelimited', 'deepObject']
/** Formats of Swagger 2.0 (`collectionFormat`) with their styles; `tabDelimited` is our own. */
const FORMATS: Readonly<Record<string, string>> = {
  ssv: 'spaceDelimited',
  tsv: 'tabDelimited',
  pipes: 'pipeDelimited',
}

function styleOf(document: Fields, fields: Fields, location: DocumentParameter['location']) {
  const byLocation = location === 'query' || location === 'cookie' ? 'form' : 'simple'
  if (isSwagger(document)) {
    const format = String(fields['collectionFormat'] ?? 'csv')
    const style = FORMATS[format] ?? byLocation
    return { style, explode: format === 'multi', reserved: false, json: false, schema: fields }
  }
  const style = STYLES.find((one) => one === fields['style']) ?? byLocation
  const [content] = Object.values(fieldsOf(fields['content']))
  return {
    style,
    explode: typeof fields['explode'] === 'boolean' ? fields['explode'] : style === 'form',
    reserved: fields['allowReserved'] === true,
    json: content !== undefined,
    schema: content === undefined ? fields['schema'] : resolve(document, content).value['schema'],
  }
}

export const FORM = 'application/x-www-form-urlencoded'
export const MULTIPART = 'multipart/form-data'

/** The body of a request. */
export interface DocumentBody {
  /** The name of the body as a whole. */
  readonly name: string
  readonly required: boolean
  readonly description: unknown
  /** Media types that the operation accepts, as the document writes them. */
  readonly types: readonly string[]
  /** @returns the schema of a type of {@link types}, which may be a reference. @throws InvalidDocument for an invalid `$ref` */
  readonly schemaOf: (type: string) => unknown
  /** Members that a form must have, of those that Swagger 2.0 lists as parameters. */
  readonly requiredFields: readonly string[]
}

/** @throws InvalidDocument for an invalid `$ref` */
export function bodyOf(document: Fields, operation: DocumentOperation): DocumentBody | undefined {
  if (isSwagger(document)) return swaggerBody(document, operation)
  const { requestBody } = operation.fields
  if (requestBody === undefined) return undefined
  const { content, required, description } = resolve(document, requestBody).value
  const media = fieldsOf(content)
  return {
    name: 'body',
    required: required === true,
    description,
    types: Object.keys(media),
    schemaOf: (type) => resolve(document, media[type]).value['schema'],
    requiredFields: [],
  }
}

/** The parameter `in: body`, or those `in: formData`. */
function swaggerBody(document: Fields, operation: DocumentOperation): DocumentBody | undefined {
  const parameters = mergedParameters(document, operation)
  const consumes = listOf(operation.fields['consumes'] ?? document['consumes']).map(String)
  const whole = parameters.find((one) => one['in'] === 'body')
  if (whole !== undefined)
    return {
      name: String(whole['name']),
      required: whole['required'] === true,
      description: whole['description'],
      types: consumes.length === 0 ? ['application/json'] : consumes,
      schemaOf: () => whole['schema'],
      requiredFields: [],
    }
  const form = parameters.filter((one) => one['in'] === 'formData')
  if (form.length === 0) return undefined
  const requiredFields = form.filter((one) => one['required'] === true).map((one) => String(one['name']))
  const properties = Object.fromEntries(form.map((one) => [String(one['name']), one]))
  return {
    name: 'body',
    required: requiredFields.length > 0,
    description: undefined,
    types: consumes.length === 0 ? [FORM] : consumes.filter(isForm),
    schemaOf: () => ({ type: 'object', properties }),
    requiredFields,
  }
}

const isForm = (type: string) => [FORM, MULTIPART].includes(type.split(';')[0]?.trim().toLowerCase() ?? '')

/**
 * The schema of the JSON of the only successful response; undefined if it has none, or there are several.
 * @throws InvalidDocument for an invalid `$ref`
 */
export function responseSchemaOf(document: Fields, { fields }: DocumentOperation): unknown {
  const successful = Object.entries(fieldsOf(fields['responses'])).filter(([status]) => /^2/.test(status))
  if (successful.length !== 1) return undefined
  const content = Object.entries(fieldsOf(resolve(document, successful[0]?.[1]).value['content']))
  const [json] = content.filter(([type]) => /[/+]json\s*(;|$)/i.test(type))
  return resolve(document, json?.[1]).value['schema']
}

/**
 * The first server of an operation, its path item or the document, with the defaults of its variables.
 * @returns a URL that may be relative to that of the document; undefined if there are no servers
 */
export function serverOf({ servers }: Fields): string | undefined {
  const { url, variables } = fieldsOf(listOf(servers)[0])
  if (typeof url !== 'string') return undefined
  return url.replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
    const known = fieldsOf(variables)
    const variable = Object.hasOwn(known, name) ? fieldsOf(known[name]) : {}
    return typeof variable['default'] === 'string' ? variable['default'] : whole
  })
}

/** The server by `schemes`, `host` and `basePath` of Swagger 2.0. Scheme and host default to those of the document. @param url of the document */
export function swaggerServerOf(document: Fields, { fields }: DocumentOperation, url: URL): string {
  const { schemes: own } = fields
  const schemes = listOf(Array.isArray(own) ? own : document['schemes'])
  const scheme = url.protocol.slice(0, -1)
  const chosen =
    schemes.length === 0 || schemes.includes(scheme)
      ? scheme
      : schemes.includes('https')
        ? 'https'
        : schemes[0]
  const host = typeof document['host'] === 'string' ? document['host'] : url.host
  const path = typeof document['basePath'] === 'string' ? document['basePath'] : '/'
  return `${String(chosen)}://${host}${path.startsWith('/') ? '' : '/'}${path}`
}

/** True for Swagger 2.0. */
export const isSwagger = ({ swagger, openapi }: Fields): boolean =>
  swagger !== undefined && openapi === undefined
