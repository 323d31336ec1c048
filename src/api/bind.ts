/** An HTTP request → the one input object of an operation. The inverse stands in openapi.ts. */

import type { FastifyRequest } from 'fastify'
import { didYouMean } from '../../flows-dsl/diagnostics/diagnostics.ts'
import { type AnyOperation, placeOf, QUERY_NAMES } from '../core/operation.ts'
import { Problem } from '../core/problem.ts'
import { sourceOf } from './streams.ts'

type Fields = Record<string, unknown>

/**
 * Gathers path, query, headers and body. Types are checked later, by the operation's own schema.
 * @param ask whether the caller may still do this, for bodies that come over minutes
 */
export function bind(operation: AnyOperation, request: FastifyRequest, ask: () => Promise<void>): Fields {
  return {
    ...preferences(operation, request),
    ...bodyFields(operation, request, ask),
    ...queryFields(operation, request.query as Fields),
    ...headerFields(operation, request),
    ...pathFields(operation, request.params as Fields),
  }
}

/** An operation's path as the router writes it; there, all that is left of a path is called `*`. */
export function routePath({ http }: AnyOperation): string {
  return http.path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')
}

function pathFields(operation: AnyOperation, params: Fields): Fields {
  const [, rest = '*'] = /\{(\w+)\*\}$/.exec(operation.http.path) ?? []
  return Object.fromEntries(
    Object.entries(params).map(([param, value]) => {
      const name = param === '*' ? rest : param
      return [name, coerce(operation, name, value)]
    }),
  )
}

const PARAMETERS = new WeakMap<AnyOperation, ReadonlyMap<string, string>>()

/** The query parameters of an operation, each with the field that it is; found out once. */
function parametersOf(operation: AnyOperation): ReadonlyMap<string, string> {
  const known = PARAMETERS.get(operation)
  if (known !== undefined) return known
  const { http, input } = operation
  const names = Object.keys(input.properties).filter(
    (name) => name !== http.rest && placeOf(name, http) === 'query',
  )
  const found = new Map(names.map((name) => [QUERY_NAMES[name] ?? name, name]))
  PARAMETERS.set(operation, found)
  return found
}

function queryFields(operation: AnyOperation, query: Fields): Fields {
  const { rest } = operation.http
  const fieldOf = parametersOf(operation)
  const fields: Fields = {}
  const others: [string, unknown][] = []
  for (const [name, value] of Object.entries(query)) {
    if (name === 'apikey' && operation.http.keyInQuery) continue
    const field = fieldOf.get(name)
    if (field !== undefined) fields[field] = coerce(operation, field, value)
    else if (rest === undefined) throw unknownParameter(name, [...fieldOf.keys()])
    else others.push(...[value].flat().map((one): [string, unknown] => [name, one]))
  }
  if (rest !== undefined) fields[rest] = others
  return fields
}

function unknownParameter(name: string, known: readonly string[]): Problem {
  const near = didYouMean(name, known)
  const takes = known.length === 0 ? 'This route takes none.' : `This route takes ${known.join(', ')}.`
  return new Problem('unknown_parameter', {
    detail: `There is no query parameter ${JSON.stringify(name.slice(0, 100))}. ${takes}`,
    ...(near !== undefined && { hint: near }),
    errors: [{ in: 'query', name: name.slice(0, 100), pointer: '', detail: 'is not known' }],
  })
}

function headerFields(operation: AnyOperation, request: FastifyRequest): Fields {
  const fields: Fields = {}
  for (const [field, header] of Object.entries(operation.http.headers ?? {})) {
    const text = header === 'x-request-id' ? request.id : request.headers[header]
    if (typeof text !== 'string') continue
    const value = header === 'prefer' ? waitOf(text) : text
    if (value !== undefined) fields[field] = value
  }
  return fields
}

/** `wait=N` among the preferences, in whole seconds. */
function waitOf(prefer: string): number | undefined {
  const digits = preferenceOf(prefer, 'wait')
  return digits !== undefined && /^[0-9]{1,6}$/.test(digits) ? Number(digits) : undefined
}

/** A preference that the field cannot take is for nobody, like others that are not known (RFC 7240 §2). */
function preferences({ http, input }: AnyOperation, { headers }: FastifyRequest): Fields {
  const fields: Fields = {}
  const { prefer } = headers
  for (const name of typeof prefer === 'string' ? (http.preferences ?? []) : []) {
    const value = preferenceOf(String(prefer), name)
    const { enum: known = [] } = input.properties[name] as { enum?: readonly string[] }
    if (value !== undefined && known.includes(value)) fields[name] = value
  }
  return fields
}

/** The value of `name=value` in a Prefer header. */
function preferenceOf(prefer: string, name: string): string | undefined {
  for (const preference of prefer.split(/[,;]/)) {
    const [key = '', value] = preference.split('=')
    if (key.trim().toLowerCase() === name) return value?.trim().replaceAll('"', '')
  }
  return undefined
}

function bodyFields(operation: AnyOperation, request: FastifyRequest, ask: () => Promise<void>): Fields {
  const { body: field, takes } = operation.http
  if (field !== undefined && takes === 'bytes') return { [field]: sourceOf(request, ask) }
  if (field === undefined) {
    if (request.body !== undefined) throw new Problem('body_invalid', { detail: 'This route takes no body.' })
    return {}
  }
  if (typeof request.body === 'string' && !isJson(request)) return textField(operation, request)
  if (request.body !== undefined && !jsonTypes(operation).includes(mediaType(request)))
    throw unsupported(operation)
  if (field !== '*') return request.body === undefined ? {} : { [field]: request.body }
  const { body = {} } = request
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new Problem('body_invalid', { detail: 'The body must be a JSON object.' })
  }
  for (const name of Object.keys(body)) rejectMisplaced(operation, name)
  return body as Fields
}

/** A field that the path or a header binds is not taken from the body as well. */
function rejectMisplaced(operation: AnyOperation, name: string): void {
  const place = placeOf(name, operation.http)
  if (place === 'body' || !Object.hasOwn(operation.input.properties, name)) return
  const errors = [{ in: 'body', name, pointer: `/${name}`, detail: `belongs in the ${place}` }] as const
  throw new Problem('validation_failed', { detail: `${name} belongs in the ${place}.`, errors })
}

const mediaType = (request: FastifyRequest) =>
  request.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
const isJson = (request: FastifyRequest) => /^application\/(\w[\w.-]*\+)?json$/.test(mediaType(request))
const jsonTypes = ({ http }: AnyOperation) => http.json ?? ['application/json']

function textField(operation: AnyOperation, request: FastifyRequest): Fields {
  const field = operation.http.texts?.[mediaType(request)]
  if (field === undefined) throw unsupported(operation)
  return { [field]: request.body }
}

function unsupported(operation: AnyOperation): Problem {
  const taken = [...jsonTypes(operation), ...Object.keys(operation.http.texts ?? {})].join(', ')
  return new Problem('media_type_unsupported', { detail: `This route takes ${taken}.` })
}

/** Texts of path and query become what the schema wants; what does not fit stays a text and fails there. */
function coerce(operation: AnyOperation, field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value
  const { type } = (operation.input.properties[field] ?? {}) as { type?: string }
  if (type === 'integer' && /^-?[0-9]{1,15}$/.test(value)) return Number(value)
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}
