/** Binds an HTTP request to the input of an operation. features/openapi/document.ts describes the same binding. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { didYouMean } from '../../flows-dsl/diagnostics/diagnostics.ts'
import { shortQuote } from '../core/json.ts'
import { type AnyOperation, inputInvalid, placeOf, QUERY_NAMES } from '../core/operation.ts'
import { type InputError, Problem } from '../core/problem.ts'
import { rawRequest, sourceOf } from './body-streams.ts'

type Fields = Record<string, unknown>

/** The query parameter with a signed link. */
export const LINK = 'link'

/**
 * Collects path, query, headers and body. The operation's schema checks the types later.
 * @param recheck throws if the caller lost the right meanwhile; for bodies that are sent for minutes
 */
export function bind(
  operation: AnyOperation,
  request: FastifyRequest,
  reply: FastifyReply,
  recheck: () => Promise<void>,
): Fields {
  const { body, takes } = operation.http
  if (takes === 'request' && body !== undefined) {
    const path = pathFields(operation, request.params as Fields)
    return { [body]: rawRequest(request, reply, recheck), ...path }
  }
  rejectUncheckedConditions(operation, request)
  return {
    ...preferences(operation, request),
    ...bodyFields(operation, request, recheck),
    ...queryFields(operation, request.query as Fields),
    ...headerFields(operation, request),
    ...pathFields(operation, request.params as Fields),
  }
}

/** Parses what {@link bind} has collected. @throws Problem that names parameters and headers as requests spell them */
export function parseBound(operation: AnyOperation, input: Fields): ReturnType<AnyOperation['parse']> {
  try {
    return operation.parse(input)
  } catch (error) {
    if (!(error instanceof Problem) || error.errors.length === 0) throw error
    throw inputInvalid(error.errors.map((one) => asSent(operation, one)))
  }
}

function asSent({ http }: AnyOperation, error: InputError): InputError {
  const spelled = error.in === 'query' ? QUERY_NAMES[error.name] : http.headers?.[error.name]
  const isRenamed = spelled !== undefined && error.in !== 'body' && error.in !== 'path'
  return isRenamed ? { ...error, name: spelled, pointer: '' } : error
}

/** An operation's path in the router's syntax, in which `*` matches the rest of a path. */
export function routePath({ http }: AnyOperation): string {
  return http.path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')
}

/** The methods that each route answers, by its path in the router's syntax; HEAD beside GET, but for streams, which have no end. */
export function methodsByPath(operations: readonly AnyOperation[]): ReadonlyMap<string, ReadonlySet<string>> {
  const paths = new Map<string, Set<string>>()
  for (const operation of operations) {
    const { http } = operation
    const url = routePath(operation)
    const methods = paths.get(url) ?? new Set()
    for (const method of http.methods ?? [http.method]) methods.add(method)
    paths.set(url, methods)
    if (http.method === 'GET' && http.reply !== 'feed') methods.add('HEAD')
  }
  return paths
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

/** The fields of an operation by query parameter; computed once. */
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

/** The header of this name takes precedence, for clients that cannot set it. */
const LAST_EVENT_ID = 'last_event_id'
const isFeed = ({ http }: AnyOperation) => http.reply === 'feed'

function queryFields(operation: AnyOperation, query: Fields): Fields {
  const { rest } = operation.http
  const fieldOf = parametersOf(operation)
  const fields: Fields = {}
  const others: [string, unknown][] = []
  for (const [name, value] of Object.entries(query)) {
    if (name === 'apikey' && operation.http.keyInQuery) continue
    if (name === LINK && operation.http.linkInQuery) continue
    const field = name === LAST_EVENT_ID && isFeed(operation) ? name : fieldOf.get(name)
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
    detail: `There is no query parameter ${shortQuote(name)}. ${takes}`,
    ...(near !== undefined && { hint: near }),
    errors: [{ in: 'query', name: name.slice(0, 100), pointer: '', detail: 'is not known' }],
  })
}

/** Headers that limit a request to a version of its target or to a part of it (RFC 9110 §13, §14.5), or rename its body (S3). */
const CONDITIONS = ['if-match', 'if-unmodified-since', 'if-none-match', 'if-modified-since', 'if-range']
/** A response to a request that only reads may leave these out of account: it is whole, and new. */
const IGNORED_BY_READS: ReadonlySet<string> = new Set(['if-none-match', 'if-modified-since', 'if-range'])
/** Headers of S3 clients that would change what is stored; those of signatures change nothing. */
const S3_HEADER =
  /^x-amz-(meta-|decoded-content-length|checksum-|trailer|copy-source|tagging|acl|server-side)/

/** @throws Problem `condition_unsupported` for a header that would otherwise be ignored, although it decides what is done */
function rejectUncheckedConditions(operation: AnyOperation, { headers }: FastifyRequest): void {
  const { method, takes } = operation.http
  const isRead = method === 'GET' || method === 'HEAD'
  const bound = new Set<string>(Object.values(operation.http.headers ?? {}))
  const unchecked = CONDITIONS.filter(
    (name) => headers[name] !== undefined && !bound.has(name) && !(isRead && IGNORED_BY_READS.has(name)),
  )
  if (!isRead && headers['content-range'] !== undefined) unchecked.push('content-range')
  if (takes === 'bytes') unchecked.push(...Object.keys(headers).filter((name) => S3_HEADER.test(name)))
  if (/^STREAMING-/.test(String(headers['x-amz-content-sha256'] ?? '')))
    unchecked.push('x-amz-content-sha256')
  const [first] = unchecked
  if (first === undefined) return
  const detail = `${operation.http.method} ${operation.http.path} does not implement the header ${first}. Nothing was done.`
  throw new Problem('condition_unsupported', { detail })
}

function headerFields(operation: AnyOperation, request: FastifyRequest): Fields {
  const fields: Fields = {}
  for (const [field, header] of Object.entries(operation.http.headers ?? {})) {
    if (header === 'x-meta-*') {
      fields[field] = metadataIn(request.headers)
      continue
    }
    const text = header === 'x-request-id' ? request.id : request.headers[header]
    if (typeof text !== 'string') continue
    // A client without a position may send it empty.
    if (field === LAST_EVENT_ID && text === '') continue
    const value = header === 'prefer' ? preferred(operation, field, text) : text
    if (value !== undefined) fields[field] = value
  }
  return fields
}

/** The headers `x-meta-<name>`, by name. */
const metadataIn = (headers: FastifyRequest['headers']): Fields =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith('x-meta-') ? [[name.slice('x-meta-'.length), value]] : [],
    ),
  )

/** The value of a field among the preferences: `respond-async` for a boolean (RFC 7240 §4.1), else `wait=N`. */
function preferred({ input }: AnyOperation, field: string, prefer: string): number | true | undefined {
  const { type } = input.properties[field] as { type?: string }
  if (type !== 'boolean') return waitOf(prefer)
  return /(^|,)\s*respond-async\s*(,|;|$)/i.test(prefer) || undefined
}

/** `wait=N` among the preferences, in whole seconds. */
function waitOf(prefer: string): number | undefined {
  const digits = preferenceOf(prefer, 'wait')
  return digits !== undefined && /^[0-9]{1,6}$/.test(digits) ? Number(digits) : undefined
}

/** Ignores preferences with an unknown name or value (RFC 7240 §2). */
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

function bodyFields(operation: AnyOperation, request: FastifyRequest, recheck: () => Promise<void>): Fields {
  const { body: field, takes } = operation.http
  if (field !== undefined && takes === 'bytes') return { [field]: sourceOf(request, recheck) }
  if (field === undefined) {
    if (request.body !== undefined)
      throw new Problem('body_invalid', {
        detail: 'This route takes no body.',
        hint: 'Send the request without a body and without Content-Type.',
      })
    return {}
  }
  if (typeof request.body === 'string' && !isJson(request)) return textField(operation, request)
  const other = operation.http.otherJson?.[mediaType(request)]
  if (other !== undefined) return request.body === undefined ? {} : { [other]: request.body }
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

/** @throws Problem `validation_failed` for a field of the body that belongs in the path or a header */
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
  const { texts = {}, otherJson = {} } = operation.http
  const mediaTypes = [...jsonTypes(operation), ...Object.keys(otherJson), ...Object.keys(texts)].join(', ')
  return new Problem('media_type_unsupported', { detail: `This route takes ${mediaTypes}.` })
}

/**
 * Converts a text of path or query to the type of its field; one that does not fit stays a text, and fails validation. A list is
 * one parameter with commas between its values (`style: form`, `explode: false` in OpenAPI); a repeated parameter fails.
 */
function coerce(operation: AnyOperation, field: string, value: unknown): unknown {
  const { type } = (operation.input.properties[field] ?? {}) as { type?: string }
  if (type === 'array') return typeof value === 'string' ? value.split(',') : [value]
  if (typeof value !== 'string') return value
  if (type === 'integer' && /^-?[0-9]{1,15}$/.test(value)) return Number(value)
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}
