/** The operation of an OpenAPI document that `call: openapi` names: its method, server, parameters and body. */

import { nearest } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { type Fields, fieldsOf, InvalidDocument, listOf, resolve } from '../../infra/openapi/document.ts'
import {
  bodyOf,
  type DocumentBody,
  type DocumentOperation,
  type DocumentParameter,
  FORM,
  isSwagger,
  MULTIPART,
  operationsIn,
  parametersOf,
  serverOf,
  swaggerServerOf,
} from '../../infra/openapi/operations.ts'
import { callFailure } from '../call-failure.ts'
import { mediaTypeOf } from './request-body.ts'

export interface Body {
  readonly media: string
  readonly required: boolean
  /** The name of the parameter that is the whole body. */
  readonly name: string
  /** Names of parameters that are properties of the body; undefined if any name is allowed. */
  readonly fields: readonly string[] | undefined
  /** The required ones of these. */
  readonly requiredFields: readonly string[]
}

export type Parameter = Omit<DocumentParameter, 'schema' | 'description'>

export interface Operation {
  readonly method: string
  /** The path template, with `{name}`s. */
  readonly path: string
  readonly server: URL
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

/** Names of header parameters that are ignored (OpenAPI 3.1 "Parameter Object"): other parts of a document define these headers. */
const IGNORED_HEADERS = new Set(['accept', 'content-type', 'authorization'])

/**
 * Finds an operation by its id.
 * @param url the URL of the document, to which its servers may be relative
 * @throws ApplicationFailure (configuration) if there is none, or the document is invalid
 */
export function operationOf(document: Fields, id: string, url: URL): Operation {
  try {
    return toOperation(document, findOperation(document, id), url)
  } catch (error) {
    throw error instanceof InvalidDocument ? callFailure('configuration', error.message) : error
  }
}

function findOperation(document: Fields, id: string): DocumentOperation {
  const ids: string[] = []
  for (const operation of operationsIn(document)) {
    if (operation.id === id) return operation
    if (operation.id !== undefined) ids.push(operation.id)
  }
  const near = nearest(id, ids.slice(0, NAMES_MAX))
  const hint = near === undefined ? '' : ` Did you mean \`${near}\`?`
  throw new InvalidDocument(`The document has no operation \`${id.slice(0, 200)}\`.${hint}`)
}

/** Ids that are compared for a suggestion, since each comparison costs time. */
const NAMES_MAX = 300

function toOperation(document: Fields, operation: DocumentOperation, url: URL): Operation {
  const { path, method } = operation
  if (!path.startsWith('/')) throw new InvalidDocument(`The path \`${path}\` must begin with a slash.`)
  const parameters = parametersOf(document, operation).filter(
    ({ location, name }) => location !== 'header' || !IGNORED_HEADERS.has(name.toLowerCase()),
  )
  const documentBody = bodyOf(document, operation)
  const server = requireServer(document, operation, url)
  return {
    method: method.toUpperCase(),
    path,
    server,
    parameters,
    ...(documentBody !== undefined && { body: toBody(document, documentBody) }),
  }
}

function toBody(document: Fields, { types, schemaOf, name, required, requiredFields }: DocumentBody): Body {
  const media = mediaOf(types)
  const schema = schemaOf(types.find((type) => type === media || isAny(type)) ?? media)
  const fields = schema === undefined ? undefined : propertiesOf(document, schema)
  return { media, required, name, fields, requiredFields }
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
  throw new InvalidDocument(
    `The operation accepts a body only as ${list || 'nothing'}, which is not supported.`,
  )
}

/** Names of the properties of a schema, including those of its `allOf`; undefined if it has none. Visits each schema once. */
function propertiesOf(document: Fields, schema: unknown): readonly string[] | undefined {
  const names = new Set<string>()
  const seen = new Set<Fields>()
  const left = [resolve(document, schema).value]
  for (let at = left.pop(); at !== undefined; at = left.pop()) {
    if (seen.has(at)) continue
    seen.add(at)
    for (const name of Object.keys(fieldsOf(at['properties']))) names.add(name)
    for (const part of listOf(at['allOf'])) left.push(resolve(document, part).value)
  }
  return names.size === 0 ? undefined : [...names]
}

/** The first server of the operation; without one that of its path, then that of the document. */
function requireServer(document: Fields, operation: DocumentOperation, url: URL): URL {
  const text = isSwagger(document)
    ? swaggerServerOf(document, operation, url)
    : (serverOf(operation.fields) ?? serverOf(operation.item) ?? serverOf(document) ?? '/')
  const server = URL.canParse(text, url.href) ? new URL(text, url) : undefined
  if (server !== undefined && /^https?:$/.test(server.protocol)) return server
  throw new InvalidDocument('The OpenAPI document names no server that is an http or https URL.')
}
