/** Describes operations as an OpenAPI 3.1 document, with the binding that bind.ts applies. */

import Type from 'typebox'
import { ACCESS_LIMITS } from '../../access/limits.ts'
import { END_EVENT } from '../../core/bytes.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { type AnyOperation, acceptsKey, type FeedEvents, placeOf, QUERY_NAMES } from '../../core/operation.ts'
import { PROBLEMS } from '../../core/problem-catalogue.ts'
import { ComponentSchemas } from './references.ts'
import { clientName, requireTag, TAGS } from './tags.ts'

type Json = Record<string, unknown>

const PROBLEM = { $ref: '#/components/responses/Problem' }

const ABOUT = {
  title: 'Tenon',
  description:
    'One backend for many tenants: collections, objects, events, functions, flows and MCP servers behind one API.',
}

/** An OpenAPI document to which operations are added one by one. */
export class OpenApiDocument {
  readonly #paths: Record<string, Json> = {}
  readonly #components = new ComponentSchemas()

  /**
   * @param operation one whose name has a part between noun and verb has no name in typed clients
   * @throws TypeError if it has a schema with the name of another schema
   */
  add(operation: AnyOperation): void {
    const method = operation.http.method.toLowerCase()
    // OpenAPI cannot describe a parameter that matches the rest of a path.
    const path = operation.http.path.replace('*}', '}')
    this.#paths[path] = { ...this.#paths[path], [method]: this.#components.refer(describe(operation)) }
  }

  toJson(about: typeof ABOUT = ABOUT): Json {
    const responses = this.#components.refer(RESPONSES)
    return {
      openapi: '3.1.0',
      info: {
        ...about,
        version: '1',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: TAGS.map(({ name, description }) => ({ name, description })),
      paths: this.#paths,
      components: { securitySchemes: SECURITY_SCHEMES, responses, schemas: this.#components.schemas },
    }
  }
}

export function openApi(operations: readonly AnyOperation[]): Json {
  const document = new OpenApiDocument()
  for (const operation of operations) document.add(operation)
  return document.toJson()
}

/** `noun.verb` */
const isPlain = (name: string): boolean => name.split('.').length === 2

function describe(operation: AnyOperation): Json {
  const { http } = operation
  const status = String(http.status?.({}) ?? 200)
  const accepted = http.location !== undefined && http.headers?.['wait'] !== undefined
  const body = requestBody(operation)
  const success = { description: 'Successful response.', ...replyHeaders(operation), ...content(operation) }
  return {
    operationId: operation.name,
    summary: operation.summary,
    tags: [requireTag(operation.name)],
    ...(isPlain(operation.name) && {
      'x-client': { ...clientName(operation.name), ...bodyField(operation) },
    }),
    'x-privilege-domain': operation.domain,
    'x-roles': operation.roles,
    ...(operation.requiredScope !== undefined && { 'x-scope': operation.requiredScope }),
    'x-stability': operation.stability,
    security: operation.domain === 'structural_admin' ? [{ bearer: [] }] : [{ apiKey: [] }, { bearer: [] }],
    parameters: [...parameters(operation), ...conditions(operation)],
    ...(body !== undefined && { requestBody: body }),
    responses: {
      ...Object.fromEntries([status, ...(http.also ?? [])].map((code) => [code, success])),
      ...(accepted && {
        202: { description: 'Accepted. Poll the operation.', content: json(operation.output) },
      }),
      ...(http.reply === 'bytes' && byteStatuses(operation)),
      ...(supportsIfNoneMatch(operation) && { 304: { description: 'Not modified.' } }),
      default: PROBLEM,
    },
  }
}

/** The input field that is the whole body, whose name is nowhere else in the document. */
const bodyField = ({ http: { body } }: AnyOperation): Json =>
  body === undefined || body === '*' ? {} : { body }

function content(operation: AnyOperation): Json {
  const { http, output } = operation
  if (http.method === 'HEAD') return {}
  if (http.reply === 'bytes') return { content: bytesOf(operation) }
  if (http.reply === 'feed')
    return { content: { 'text/event-stream': { schema: TEXT, 'x-events': eventsOf(http.events) } } }
  return { content: json(http.replyBody === undefined ? output : fieldsOf(output)[http.replyBody]) }
}

/** Events by their names, with the schema of their data. OpenAPI 3.1 has no field for them; 3.2 has `itemSchema`. */
const eventsOf = (events: FeedEvents = {}): Json =>
  Object.fromEntries(Object.entries({ ...events, ...END_EVENT }).map(([name, data]) => [name, { data }]))

/** Replies to conditional requests and ranges (RFC 9110 §13, §14). */
function byteStatuses(operation: AnyOperation): Json {
  const headers = operation.http.headers ?? {}
  const bound = new Set(Object.values(headers))
  return {
    ...(bound.has('range') && {
      206: { description: 'Partial content: the requested range.', ...content(operation) },
    }),
    ...(bound.has('if-none-match') && { 304: { description: 'Not modified.' } }),
  }
}

/** The media type is rarely known beforehand (RFC 9110 §8.3); no schema, since it is no JSON. */
const bytesOf = ({ http }: AnyOperation): Json => ({ [http.bytesType ?? '*/*']: {} })

const json = (schema: unknown): Json => ({ 'application/json': { schema } })

function replyHeaders({ output, http }: AnyOperation): Json {
  const named = Object.entries(http.replyHeaders ?? {})
  if (named.length === 0) return {}
  return {
    headers: Object.fromEntries(named.map(([field, name]) => [name, { schema: fieldsOf(output)[field] }])),
  }
}

const fieldsOf = (output: unknown) => (output as { properties: Json }).properties

function parameters(operation: AnyOperation): Json[] {
  const { properties } = operation.input
  const required: readonly string[] = operation.input.required ?? []
  const bound = Object.entries(properties).flatMap(([field, schema]) => {
    const place = placeOf(field, operation.http)
    if (place === 'body') return []
    if (field === operation.http.rest) return [restParameter(field, schema)]
    // Media types are described with the bodies (OpenAPI 3.1, "Parameter Object"). No parameter has a name that is a pattern.
    if (['accept', 'content-type', 'x-meta-*'].includes(operation.http.headers?.[field] ?? '')) return []
    const name = place === 'header' ? operation.http.headers?.[field] : (QUERY_NAMES[field] ?? field)
    const { type } = schema as { type?: string }
    const example = type === 'boolean' ? 'respond-async' : 'wait=30'
    const text =
      operation.http.headers?.[field] === 'prefer' ? { type: 'string', examples: [example] } : schema
    const list = type === 'array' && { style: 'form', explode: false }
    return [
      { name, in: place, required: place === 'path' || required.includes(field), ...list, schema: text },
    ]
  })
  return [...bound, ...preferred(operation)]
}

/** One header for all fields that the client may send as a preference. */
function preferred({ http, input }: AnyOperation): Json[] {
  const examples = (http.preferences ?? []).map((field) => {
    const { enum: known = [] } = input.properties[field] as { enum?: readonly string[] }
    return `${field}=${known[0]}`
  })
  if (examples.length === 0) return []
  return [{ name: 'prefer', in: 'header', required: false, schema: { type: 'string', examples } }]
}

/** Headers that the request pipeline handles for the operation. */
function conditions(operation: AnyOperation): Json[] {
  if (acceptsKey(operation)) return [idempotencyKey]
  if (!supportsIfNoneMatch(operation)) return []
  const description = 'ETags that the client has: the response is 304 if it would have one of them.'
  return [{ name: 'if-none-match', in: 'header', required: false, description, schema: { type: 'string' } }]
}

const supportsIfNoneMatch = ({ http }: AnyOperation) =>
  http.method === 'GET' && http.etag !== undefined && http.reply === undefined

const idempotencyKey: Json = {
  name: 'idempotency-key',
  in: 'header',
  required: false,
  description: `Key that makes it safe to send the request again: within ${ACCESS_LIMITS.idempotencyHours} hours, a repetition has no further effect and returns the first response, with \`idempotent-replayed: true\`.`,
  schema: { type: 'string', minLength: 1, maxLength: ACCESS_LIMITS.idempotencyKeyCharsMax },
}

/** Parameters with any name: an object whose members are query parameters (style `form`, exploded). */
function restParameter(name: string, { description }: { description?: string }): Json {
  const value = { oneOf: [TEXT, { type: 'array', items: TEXT }] }
  const schema = { type: 'object', additionalProperties: value }
  return { name, in: 'query', required: false, style: 'form', explode: true, description, schema }
}

function requestBody(operation: AnyOperation): Json | undefined {
  const { body, texts = {}, otherJson = {} } = operation.http
  if (body === undefined) return undefined
  const { takes } = operation.http
  if (takes !== undefined) return { required: takes === 'bytes', content: bytesOf(operation) }
  const schema = body === '*' ? bodyObject(operation) : operation.input.properties[body]
  const { json: types = ['application/json'] } = operation.http
  const content: Json = Object.fromEntries(types.map((type) => [type, { schema }]))
  for (const [type, field] of Object.entries({ ...otherJson, ...texts }))
    content[type] = { schema: operation.input.properties[field] }
  // One of several bodies is required, although none of their fields is.
  const required = bodyRequired(operation).length > 0 || Object.keys(otherJson).length > 0
  return { required, content }
}

function bodyNames(operation: AnyOperation): string[] {
  return Object.keys(operation.input.properties).filter((name) => placeOf(name, operation.http) === 'body')
}

function bodyRequired(operation: AnyOperation): string[] {
  const required: readonly string[] = operation.input.required ?? []
  return bodyNames(operation).filter((name) => required.includes(name))
}

function bodyObject(operation: AnyOperation): Json {
  const names = bodyNames(operation)
  return {
    type: 'object',
    required: bodyRequired(operation),
    properties: Object.fromEntries(names.map((name) => [name, operation.input.properties[name]])),
    additionalProperties: false,
  }
}

const TEXT = { type: 'string' }

const SECURITY_SCHEMES: Json = {
  apiKey: { type: 'apiKey', in: 'header', name: 'apikey' },
  bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
}

const ProblemError = component(
  'ProblemError',
  Type.Object({
    in: Type.Enum(['body', 'path', 'query', 'header'], { description: 'Part of the request.' }),
    name: Type.String({ description: 'Name of the field, parameter or header.' }),
    pointer: Type.String({ description: 'JSON pointer of the value in its part.' }),
    detail: Type.String(),
    keyword: Type.Optional(
      Type.String({ description: 'Keyword of the schema of the collection that the value violates.' }),
    ),
  }),
  { in: 'body', name: 'name', pointer: '/name', detail: 'must not have fewer than 1 characters' },
)

const ProblemDocument = component(
  'Problem',
  Type.Object(
    {
      type: Type.String({ description: 'Path of the page about the code.' }),
      title: Type.String(),
      status: Type.Integer({ description: 'HTTP status.' }),
      detail: Type.Optional(Type.String()),
      instance: Type.Optional(Type.String({ description: 'Path of the request.' })),
      code: Type.String({
        description: 'Code, whose meaning never changes. Later versions may add codes.',
        // The keyword for lists that grow (Zalando RESTful API Guidelines, rule 112).
        'x-extensible-enum': Object.keys(PROBLEMS).sort(),
      }),
      request_id: Type.String({ description: 'Id under which the request is logged.' }),
      hint: Type.Optional(Type.String({ description: 'The next step of the caller.' })),
      errors: Type.Optional(Type.Array(ProblemError)),
    },
    { description: 'Problem (RFC 9457). Further members belong to the code.' },
  ),
  {
    type: '/docs/problems/validation_failed',
    title: 'The input is not valid',
    status: 400,
    detail: 'name: must not have fewer than 1 characters',
    instance: '/v1/tenants',
    code: 'validation_failed',
    request_id: EXAMPLE_ID.request,
    hint: 'See `errors` for the fields and reasons.',
    errors: [{ in: 'body', name: 'name', pointer: '/name', detail: 'must not have fewer than 1 characters' }],
  },
)

const RESPONSES: Json = {
  Problem: {
    description: 'Problem (RFC 9457); the meaning of a `code` never changes.',
    headers: { 'x-request-id': { schema: TEXT } },
    content: { 'application/problem+json': { schema: ProblemDocument } },
  },
}
