/** Describes operations as an OpenAPI 3.1 document, with the binding that bind.ts applies. */

import { ACCESS_LIMITS } from '../access/limits.ts'
import { type AnyOperation, placeOf, QUERY_NAMES } from '../core/operation.ts'
import { acceptsKey } from './idempotency.ts'

type Json = Record<string, unknown>

const PROBLEM = { $ref: '#/components/responses/Problem' }

export function openApi(operations: readonly AnyOperation[]): Json {
  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const { method } = operation.http
    // OpenAPI cannot describe a parameter that matches the rest of a path.
    const path = operation.http.path.replace('*}', '}')
    paths[path] = { ...paths[path], [method.toLowerCase()]: describe(operation) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tenon',
      version: '1',
      description:
        'One backend for many tenants: collections, objects, events, functions, flows and MCP servers behind one API.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    paths,
    components: components(),
  }
}

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

function content(operation: AnyOperation): Json {
  const { http, output } = operation
  if (http.method === 'HEAD') return {}
  if (http.reply === 'bytes') return { content: bytesOf(operation) }
  if (http.reply === 'feed') return { content: { 'text/event-stream': { schema: TEXT } } }
  return { content: json(http.replyBody === undefined ? output : fieldsOf(output)[http.replyBody]) }
}

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

function components(): Json {
  return {
    securitySchemes: {
      apiKey: { type: 'apiKey', in: 'header', name: 'apikey' },
      bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    },
    responses: {
      Problem: {
        description: 'Problem (RFC 9457); the meaning of a `code` never changes.',
        headers: { 'x-request-id': { schema: TEXT } },
        content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    },
    schemas: {
      Problem: {
        type: 'object',
        required: ['type', 'title', 'status', 'code', 'request_id'],
        properties: {
          type: TEXT,
          title: TEXT,
          status: { type: 'integer' },
          detail: TEXT,
          instance: TEXT,
          code: TEXT,
          request_id: TEXT,
          hint: TEXT,
          errors: { type: 'array', items: { type: 'object' } },
        },
      },
    },
  }
}

/** The tags of the document; `nouns` are the first parts of operation names. */
const TAGS = [
  {
    name: 'Collections',
    description:
      'JSON documents: filters, order, keyset pages; declared with a schema or created by the first write.',
    nouns: ['collection', 'collections', 'batch', 'bulk_change', 'schema'],
  },
  {
    name: 'Objects',
    description:
      "Objects of any media type in the workspace's bucket, as streams, with ranges, conditions and uploads that resume.",
    nouns: ['object', 'upload'],
  },
  {
    name: 'Events',
    description: 'Events of the tenant: publish, and subscribe as server-sent events with replay.',
    nouns: ['event'],
  },
  {
    name: 'Functions',
    description:
      'TypeScript in a sandbox. Each call is a durable run; the response is the return value of the function.',
    nouns: [
      'function',
      'function_version',
      'function_alias',
      'function_trigger',
      'function_run',
      'invocation',
    ],
  },
  {
    name: 'Flows',
    description:
      'Durable workflows in the Open Workflow Specification DSL: drafts, immutable versions, executions.',
    nouns: [
      'flow',
      'flow_version',
      'flow_alias',
      'flow_secret',
      'execution',
      'flow_execution',
      'execution_step',
      'approval',
      'inbox',
      'schedule',
      'trigger',
    ],
  },
  {
    name: 'MCP servers',
    description:
      'Tools for agents, made of collections, functions, events and flows: curated, published, audited.',
    nouns: [
      'mcp_server',
      'mcp_candidate',
      'mcp_curation',
      'mcp_version',
      'mcp_call',
      'mcp_client',
      'mcp_source',
    ],
  },
  {
    name: 'Identity',
    description:
      'Accounts of people, end users of workspaces, OAuth clients, and the keys of the embedded issuer.',
    nouns: ['account', 'user', 'oauth_client', 'issuer', 'sign_in_policy'],
  },
  {
    name: 'Temporal',
    description: 'Support of the Temporal UI for operators: decrypted payloads of executions.',
    nouns: ['codec'],
  },
  {
    name: 'Analytics',
    description: 'Metrics of a workspace or tenant, and usage by the hour.',
    nouns: ['analytics', 'usage'],
  },
  {
    name: 'Tenants',
    description:
      'Tenants, their workspaces and host names, API keys, settings and quotas, and the operations that create them.',
    nouns: [
      'me',
      'limits',
      'status',
      'tenant',
      'workspace',
      'host',
      'api_key',
      'quota',
      'service',
      'operation',
    ],
  },
  {
    name: 'Audit',
    description: 'Changes and denied requests with their callers, in a hash chain per tenant.',
    nouns: ['audit'],
  },
]

/** The tag of the noun of an operation; undefined if none lists it. */
export function tagOf(operation: string): string | undefined {
  const noun = operation.split('.')[0] ?? ''
  return TAGS.find(({ nouns }) => nouns.includes(noun))?.name
}

/** @throws TypeError if no tag lists the noun of the operation */
function requireTag(operation: string): string {
  const tag = tagOf(operation)
  if (tag === undefined) throw new TypeError(`no tag lists the noun of ${operation}`)
  return tag
}
