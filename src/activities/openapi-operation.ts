/** Knows one operation of an OpenAPI document: its method, server, parameters and body, in one form for all versions. */

import { nearest } from '../../flows-dsl/faults.ts'
import { callFailure } from './call-failure.ts'
import { type Fields, fieldsOf } from './http-auth-fields.ts'
import { type Body, bodyOf, formBodyOf } from './openapi-body.ts'
import { resolved } from './openapi-refs.ts'
import { serverOf } from './openapi-server.ts'
import type { Place, Style } from './openapi-styles.ts'

export interface Parameter extends Style {
  readonly place: Place
  readonly required: boolean
  /** It has `content`: its value is JSON. */
  readonly json: boolean
}

export interface Operation {
  readonly method: string
  /** With its `{name}`s. */
  readonly path: string
  readonly server: URL
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch']
const PLACES = ['path', 'query', 'header', 'cookie']
/** What a header parameter may not be (OpenAPI 3.1 "Parameter Object"): others say these. */
const UNSAID = new Set(['accept', 'content-type', 'authorization'])

/**
 * The operation of that id.
 * @param url where the document is, for servers that are relative to it
 * @throws ApplicationFailure (configuration) where there is none, or the document is not as it should be
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

/** The distance to each name is computed, and takes its time. */
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
  const { document, path, method, item, operation, url } = found
  if (!path.startsWith('/')) throw callFailure('configuration', `The path \`${path}\` begins with no slash.`)
  const given = parametersOf(document, item, operation)
  const isOld = document['swagger'] !== undefined
  const parameters = given
    .filter(isPlaced)
    .map((one) => (isOld ? oldParameter(one) : parameterOf(one)))
    .filter(({ place, name }) => place !== 'header' || !UNSAID.has(name.toLowerCase()))
  const body = isOld ? formBodyOf(document, operation, given) : bodyOf(document, operation)
  const server = serverOf({ document, item, operation, url })
  return { method: method.toUpperCase(), path, server, parameters, ...(body !== undefined && { body }) }
}

/** Those of the operation go before those of its path. */
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

const isPlaced = (parameter: Fields) =>
  typeof parameter['name'] === 'string' && PLACES.includes(String(parameter['in']))

/** What both versions say alike. */
function common(given: Fields) {
  const place = given['in'] as Place
  const required = place === 'path' || given['required'] === true
  return { name: String(given['name']), place, required }
}

function parameterOf(given: Fields): Parameter {
  const { place } = common(given)
  const usual = place === 'query' || place === 'cookie' ? 'form' : 'simple'
  const style = typeof given['style'] === 'string' ? given['style'] : usual
  const explode = typeof given['explode'] === 'boolean' ? given['explode'] : style === 'form'
  const reserved = given['allowReserved'] === true
  return { ...common(given), style, explode, reserved, json: given['content'] !== undefined }
}

/** `collectionFormat` of Swagger 2.0, by the names of today. */
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
