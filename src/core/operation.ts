/** An operation as a value: declared once, derived into a route, a tool, a flow function and a test row. */

import type { Static, TObject, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Serialized, shortPointer } from './json.ts'
import { CORE_LIMITS } from './limits.ts'
import { type Domain, domainOf, type Role, scopeOf } from './policy.ts'
import { type InputError, Problem } from './problem.ts'

/** Rate limits beside those of the roles. */
export type RateClass = 'flows'

type Stability = 'stable' | 'preview' | 'experimental'
type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

type BoundHeader =
  | 'accept'
  | 'x-request-id'
  | 'prefer'
  | 'if-match'
  | 'if-none-match'
  | 'if-modified-since'
  | 'if-unmodified-since'
  | 'if-range'
  | 'range'
  | 'cache-control'
  | 'content-type'
  | 'content-encoding'
  | 'content-disposition'
  | 'content-language'
  | 'content-md5'
  | 'content-digest'
  | 'repr-digest'
  | 'x-meta-*'
  | 'accept'
  | 'last-event-id'
  | 'idempotency-key'
  | 'tenon-chain-depth'
  | 'tus-resumable'
  | 'upload-length'
  | 'upload-defer-length'
  | 'upload-offset'
  | 'upload-metadata'
  | 'upload-checksum'

/** Events of a feed by name, each with the schema of its data. */
export type FeedEvents = Readonly<Record<string, TSchema>>

/** The HTTP binding of an operation. Path fields come from the path; fields without a binding, from the query. */
export interface HttpBinding<Output> {
  readonly method: Method
  /** All methods of the route, if it has several; the documentation shows {@link method}. */
  readonly methods?: readonly (Method | 'OPTIONS')[]
  /** `/v1/things/{thing_id}`: names in braces are input fields; a final `{key*}` matches the rest of the path. */
  readonly path: string
  /** The input field that is the whole body; `*`: the body's members are the remaining fields. */
  readonly body?: string
  /**
   * `bytes`: the body is a stream of any media type, and its field gets a ByteSource (core/bytes.ts). `request`: the field
   * gets the whole request as a RawRequest, with all headers and query parameters; only over HTTP.
   */
  readonly takes?: 'bytes' | 'request'
  /** The media type of such a body, or of a byte response, for the documentation. Default: any. */
  readonly bytesType?: string
  /** The maximum size of a JSON body, if it differs from the default. */
  readonly bodyBytesMax?: number
  /** JSON media types of the body. Default: `application/json`. */
  readonly json?: readonly string[]
  /** Further JSON media types, each with the input field that is the whole body instead. */
  readonly otherJson?: Readonly<Record<string, string>>
  /** Other media types, each with the input field for the text. */
  readonly texts?: Readonly<Record<string, string>>
  /** Fields that come from the query although the body has all others. */
  readonly query?: readonly string[]
  /** The input field for all other query parameters, as ordered pairs of name and value. */
  readonly rest?: string
  /**
   * Input fields that come from headers. `prefer` yields the seconds of `wait=N` (RFC 7240), or true
   * for `respond-async` if the field is a boolean; `x-request-id` the id under
   * which the request is logged, even if none was sent; `x-meta-*` an object of all headers that begin so, by the rest of their names.
   */
  readonly headers?: Readonly<Record<string, BoundHeader>>
  /** Input fields that may also come from `Prefer: <field>=<value>`. */
  readonly preferences?: readonly string[]
  /**
   * `feed`: the output is a Feed, sent as server-sent events; only over HTTP. `bytes`: the output is a ByteReply; flows and
   * MCP get it as text, JSON or base64.
   */
  readonly reply?: 'feed' | 'bytes'
  /** The events of a feed by name, each with the schema of its data. `message`: events without a name. */
  readonly events?: FeedEvents
  /** The output field that is the whole response, also for flows and tools. */
  readonly replyBody?: string
  /** Output fields that become response headers, each with the name of the header. */
  readonly replyHeaders?: Readonly<Record<string, string>>
  /** Accepts an anon key in the query, for browsers that cannot set headers on an event stream. */
  readonly keyInQuery?: boolean
  /** Accepts a signed link in the query (`link`) in place of any other credential. Its path has `{bucket}` and `{key*}`. */
  readonly linkInQuery?: boolean
  /** For a PUT that may create: it accepts an Idempotency-Key, as POST and PATCH do. */
  readonly takesKey?: boolean
  /** Default: 200. */
  readonly status?: (output: Output) => number
  /** Other success statuses, for the OpenAPI document. */
  readonly also?: readonly number[]
  readonly location?: (output: Output, input: Readonly<Record<string, unknown>>) => string | undefined
  readonly etag?: (output: Output) => string | undefined
}

/** A further scope that some inputs of an operation require. */
interface ConditionalScope<Input> {
  readonly scope: string
  readonly when: (input: Input) => boolean
}

/** The kind of scope that `run` gets: the structure of tenants, one workspace, or the caller alone. */
export type ScopeKind = 'admin' | 'workspace' | 'caller'

export interface Operation<Scope = never, Input = never, Output = unknown> {
  /** `noun.verb`, stable: operationId, tool name, log field, name in `call:` of flows. */
  readonly name: string
  readonly summary: string
  readonly reach: ScopeKind
  /** `any`: callers of both domains, for operations on the caller alone. */
  readonly domain: Domain | 'any'
  readonly roles: readonly Role[]
  readonly stability: Stability
  /** True if it changes nothing; such operations may be tools of the read-only MCP server. */
  readonly reads: boolean
  /**
   * For an operation that reveals data which admins otherwise do not see: the tenants that the data belongs to. Each call
   * writes an audit entry; a call by an operator, one in the chain of each of these tenants.
   */
  readonly reveals?: (input: Input) => readonly string[]
  /**
   * What becomes of payloads in its output that the caller may not see. `refused`: its output is nothing else. Undefined: it has none.
   */
  readonly payloads?: 'left out' | 'refused'
  /** True if it deletes data of callers, of which the audit log keeps no digest. */
  readonly forgets?: boolean
  /**
   * True if the caller has to have signed in a short while ago, with a second factor if there is one: what is deleted or leaves the
   * platform cannot be taken back. A function decides by the input.
   */
  readonly recentProof?: boolean | ((input: Input) => boolean)
  /** Facts of its audit entry by name, such as the values before and after a change; never a secret. */
  readonly auditDetail?: (output: Output, input: Input) => Readonly<Record<string, string>>
  /** The scope that a restricted key or token needs (policy.ts); undefined for operations that keys cannot run. */
  readonly requiredScope: string | undefined
  /** Further scopes that some inputs need. */
  readonly conditionalScopes?: readonly ConditionalScope<Input>[]
  /** The rate limit that its calls are charged to, if it is not the usual one of the caller's role. */
  readonly rateClass?: RateClass
  /**
   * True if it only waits for what has a life of its own, such as a run: when its client has gone, a repetition with the same
   * Idempotency-Key is not refused as in flight, and waits for the same.
   */
  readonly waits?: boolean
  /** True if admins may call it while the store of rate limits is away: then each process counts for itself. */
  readonly chargedWithoutStore?: boolean
  readonly input: TObject
  readonly output: TSchema
  readonly http: HttpBinding<Output>
  readonly parse: (input: unknown) => Input
  readonly run: (scope: Scope, input: Input) => Promise<Output>
}

/** Any operation, for lists of operations with different types. */
// biome-ignore lint/suspicious/noExplicitAny: a list of operations is heterogeneous; entry points call them through `parse`
export type AnyOperation = Operation<any, any, any>

export interface OperationSpec<Scope, I extends TObject, O extends TSchema> {
  readonly name: string
  readonly summary: string
  readonly roles: readonly Role[]
  readonly stability?: Stability
  /** Default: true for GET and HEAD. */
  readonly reads?: boolean
  readonly reveals?: (input: Static<I>) => readonly string[]
  /** Set by the builder if the output schema has members with payloads. */
  readonly payloads?: 'left out' | 'refused'
  readonly forgets?: boolean
  readonly recentProof?: boolean | ((input: Static<I>) => boolean)
  readonly auditDetail?: (output: Static<O>, input: Static<I>) => Readonly<Record<string, string>>
  /** The area of its scope. Default: the plural of the noun. */
  readonly area?: string
  /** Its scope, if it is not `area:read` or `area:write`. */
  readonly scope?: string
  readonly rateClass?: RateClass
  readonly waits?: boolean
  readonly chargedWithoutStore?: boolean
  readonly conditionalScopes?: readonly ConditionalScope<Static<I>>[]
  readonly input: I
  readonly output: O
  readonly http: HttpBinding<Static<O>>
  readonly run: (scope: Scope, input: Static<I>) => Promise<Static<O>>
}

/**
 * Declares an operation. Features use the builders of access/operation-builders.ts, which fix the type of the scope.
 * @param reach the kind of scope that `run` gets
 * @throws TypeError if it has roles of both domains but reaches more than the caller
 * @example
 * ```ts
 * const getNote = operation('workspace', {
 *   name: 'note.get',
 *   summary: 'Read a note',
 *   roles: ['service', 'user'],
 *   input: Input({ id: Ref('note') }),
 *   output: Type.Object({ id: Type.String(), title: Name }),
 *   http: { method: 'GET', path: '/v1/notes/{id}' },
 *   run: (scope: WorkspaceScope, { id }) =>
 *     findRow<Note>(scope, 'note', sql`select id, title from notes where id = ${id}`),
 * })
 * const { id } = getNote.parse({ id: 'note_1' })
 * getNote.requiredScope // 'notes:read'
 * ```
 */
export function operation<Scope, I extends TObject, O extends TSchema>(
  reach: ScopeKind,
  spec: OperationSpec<Scope, I, O>,
): Operation<Scope, Static<I>, Static<O>> {
  const domains = new Set(spec.roles.map(domainOf))
  const [domain] = domains
  if (domain === undefined || domains.size > 1 !== (reach === 'caller'))
    throw new TypeError(`${spec.name}: roles must share a domain`)
  const reads = spec.reads ?? (spec.http.method === 'GET' || spec.http.method === 'HEAD')
  return {
    stability: 'stable',
    ...spec,
    reads,
    reach,
    domain: reach === 'caller' ? 'any' : domain,
    requiredScope:
      reach !== 'caller' && domain === 'data_access'
        ? (spec.scope ?? scopeOf(spec.name, spec.area, reads))
        : undefined,
    parse: parser(spec.input, spec.http),
  }
}

/** A parser of the input schema that reports all errors together, each with the origin of the field. */
function parser<I extends TObject, O>(schema: I, http: HttpBinding<O>): (input: unknown) => Static<I> {
  let compiled: ReturnType<typeof Compile> | undefined
  return (input) => {
    compiled ??= Compile(schema)
    if (compiled.Check(input)) return input as Static<I>
    const excess = excessOf(schema, input).map(({ pointer, detail }) => inputError(pointer, detail, http))
    const errors = excess.length > 0 ? excess : inputErrors(schema, compiled, input, http)
    throw inputInvalid(errors)
  }
}

/** The problem of an input with these errors, which names each of them. */
export function inputInvalid(errors: readonly InputError[]): Problem {
  const detail = errors.map((error) => `${error.name}: ${error.detail}`).join('; ')
  return new Problem('validation_failed', { detail, errors })
}

function inputErrors<O>(
  schema: TObject,
  compiled: ReturnType<typeof Compile>,
  input: unknown,
  http: HttpBinding<O>,
): InputError[] {
  try {
    return withAllowedValues(schema, compiled.Errors(input))
      .filter((error) => error.keyword !== 'boolean') // a duplicate for additionalProperties: false
      .flatMap((error) => errorsOfField(error, http))
      .slice(0, CORE_LIMITS.diagnosticsReturnedMax)
  } catch (cause) {
    // `uniqueItems` compares values to any depth, and overflows the stack.
    if (!(cause instanceof RangeError)) throw cause
    throw new Problem('validation_failed', { detail: 'The input is nested too deeply.', cause })
  }
}

type SchemaError = ReturnType<ReturnType<typeof Compile>['Errors']>[number]

/** Names the values of enums. One of constants has an error for each of them, of which only the first stays. */
function withAllowedValues(schema: TObject, errors: readonly SchemaError[]): SchemaError[] {
  const allowed = new Map<string, Set<unknown>>()
  const kept = errors.filter((error) => {
    const values = allowedValues(schema, error)
    const known = allowed.get(error.instancePath)
    if (values.length > 0) allowed.set(error.instancePath, new Set([...(known ?? []), ...values]))
    return values.length === 0 || known === undefined
  })
  return kept.flatMap((error) => {
    const values = allowed.get(error.instancePath)
    if (values === undefined) return [error]
    // It says the same without the values.
    if (error.keyword === 'anyOf') return []
    const isOfEnum = error.keyword === 'const' || error.keyword === 'enum'
    return [isOfEnum ? { ...error, message: allowedText([...values]) } : error]
  })
}

const VALUES_SHOWN_MAX = 50

/** `must be one of a, b` */
function allowedText(values: readonly unknown[]): string {
  const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  const listed = texts.slice(0, VALUES_SHOWN_MAX).join(', ')
  const more = texts.length > VALUES_SHOWN_MAX ? ', …' : ''
  return texts.length === 1 ? `must be ${listed}` : `must be one of ${listed}${more}`
}

/** All values of the enum that an error is about, even if its list of errors was cut; empty for other errors. */
function allowedValues(schema: TObject, { keyword, params, schemaPath }: SchemaError): unknown[] {
  const { allowedValue, allowedValues } = params as { allowedValue?: unknown; allowedValues?: unknown[] }
  if (keyword === 'enum') return allowedValues ?? []
  if (keyword !== 'const') return []
  const [, union] = /^#\/(.+)\/anyOf\/\d+$/.exec(schemaPath) ?? []
  const found = (union?.split('/') ?? []).reduce<unknown>(
    (node, name) => (node as Record<string, unknown> | undefined)?.[name],
    schema,
  )
  const { anyOf = [] } = (union === undefined ? {} : (found ?? {})) as { anyOf?: { const?: unknown }[] }
  return [allowedValue, ...anyOf.flatMap((one) => ('const' in one ? [one.const] : []))]
}

function errorsOfField<O>(error: SchemaError, http: HttpBinding<O>): InputError[] {
  const listed = error.params as { additionalProperties?: string[]; requiredProperties?: string[] }
  const unknown = (listed.additionalProperties ?? []).map(
    (name) => [name.slice(0, 100), 'is not a known field'] as const,
  )
  const missing = (listed.requiredProperties ?? []).map((name) => [name, 'is required'] as const)
  const named = [...unknown, ...missing]
  if (named.length === 0) return [inputError(error.instancePath, error.message, http)]
  return named.map(([name, detail]) => inputError(`${error.instancePath}/${name}`, detail, http))
}

function inputError<O>(pointer: string, detail: string, http: HttpBinding<O>): InputError {
  const field = pointer.split('/')[1] ?? ''
  const place = placeOf(field, http)
  const whole = place === 'body' && isWholeBody(field, http)
  const inside = whole ? pointer.slice(field.length + 1) : pointer
  return { in: place, name: inside.split('/').slice(1).join('.') || field, pointer: inside, detail }
}

/** The part of an output that a caller gets: all of it, or the field that the binding names. */
export function replyOf(operation: AnyOperation, output: unknown): unknown {
  if (output instanceof Serialized) return output.parsed()
  const { replyBody } = operation.http
  return replyBody === undefined ? output : (output as Record<string, unknown>)[replyBody]
}

/**
 * True if requests of the operation may have an Idempotency-Key: POST and PATCH, as in the draft
 * (draft-ietf-httpapi-idempotency-key-header), and a PUT that may create, which a repetition would refuse. GET, other PUTs and DELETE are
 * idempotent by themselves (RFC 9110 §9.2.2), so a key changes nothing there; replies of streams cannot be stored.
 */
export function acceptsKey({ reads, http }: AnyOperation): boolean {
  const isKeyed = http.method === 'POST' || http.method === 'PATCH' || http.takesKey === true
  return isKeyed && !reads && http.takes === undefined && http.reply === undefined
}

/** The part of the HTTP request that an input field comes from. */
export function placeOf<O>(field: string, http: HttpBinding<O>): InputError['in'] {
  if (http.path.includes(`{${field}}`) || http.path.endsWith(`{${field}*}`)) return 'path'
  if (http.headers?.[field] !== undefined) return 'header'
  if (http.query?.includes(field)) return 'query'
  if (http.body === '*' || isWholeBody(field, http)) return 'body'
  return 'query'
}

const isWholeBody = <O>(field: string, { body, otherJson = {} }: HttpBinding<O>): boolean =>
  body === field || Object.values(otherJson).includes(field)

/** Query parameters with another name than their field, such as `page[size]`. */
export const QUERY_NAMES: Readonly<Record<string, string>> = {
  page_size: 'page[size]',
  page_after: 'page[after]',
  page_position: 'page[position]',
  csv_delimiter: 'csv[delimiter]',
  csv_null: 'csv[null]',
  csv_cells: 'csv[cells]',
  csv_header: 'csv[header]',
  csv_formulas: 'csv[formulas]',
  response_cache_control: 'response-cache-control',
  response_content_disposition: 'response-content-disposition',
  response_content_encoding: 'response-content-encoding',
  response_content_language: 'response-content-language',
  response_content_type: 'response-content-type',
  response_expires: 'response-expires',
}

/** A JSON pointer into the input, and the error there. */
interface Excess {
  readonly pointer: string
  readonly detail: string
}

interface Bounds {
  readonly maxItems?: number
  readonly items?: Bounds
  readonly properties?: Readonly<Record<string, Bounds>>
  readonly additionalProperties?: unknown
}

/**
 * The first list above its maximum length, or some unknown members of the first object that has more than are ever shown;
 * empty if there is neither.
 */
function excessOf(schema: Bounds, value: unknown, pointer = ''): Excess[] {
  if (Array.isArray(value)) {
    const { maxItems = Number.POSITIVE_INFINITY, items } = schema
    if (value.length > maxItems) return [{ pointer, detail: `must not have more than ${maxItems} items` }]
    return items === undefined ? [] : first(value.entries(), () => items, pointer)
  }
  const { properties, additionalProperties } = schema
  if (typeof value !== 'object' || value === null || properties === undefined) return []
  const known = (name: string) => Object.hasOwn(properties, name)
  const unknown = additionalProperties === false ? Object.keys(value).filter((name) => !known(name)) : []
  // The library reports each of them twice, and in such numbers nothing else.
  if (unknown.length >= CORE_LIMITS.diagnosticsReturnedMax)
    return unknown
      .slice(0, CORE_LIMITS.diagnosticsReturnedMax)
      .map((name) => ({ pointer: `${pointer}/${shortPointer(name)}`, detail: 'is not a known field' }))
  const members = Object.entries(value).filter(([name]) => known(name))
  return first(members, (name) => properties[name] ?? {}, pointer)
}

function first<Name extends string | number>(
  members: Iterable<[Name, unknown]>,
  schemaOf: (name: Name) => Bounds,
  pointer: string,
): Excess[] {
  for (const [name, member] of members) {
    const found = excessOf(schemaOf(name), member, `${pointer}/${name}`)
    if (found.length > 0) return found
  }
  return []
}
