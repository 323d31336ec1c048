/** An operation as a value: declared once, derived into a route, a tool, a flow function and a test row. */

import type { Static, TObject, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { cutToken, Serialized } from './json.ts'
import { LIMITS } from './limits.ts'
import { type Domain, domainOf, type Role, scopeOf } from './policy.ts'
import { type InputError, Problem } from './problem.ts'

type Stability = 'stable' | 'preview' | 'experimental'
type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

type BoundHeader =
  | 'x-request-id'
  | 'prefer'
  | 'if-match'
  | 'if-none-match'
  | 'range'
  | 'content-type'
  | 'content-encoding'
  | 'last-event-id'
  | 'idempotency-key'

/** How an operation lies on HTTP. Path fields come from the path; what nothing else binds, from the query. */
export interface HttpBinding<Output> {
  readonly method: Method
  /** `/v1/things/{thing_id}`: names in braces are input fields; a last `{key*}` is all that is left of the path. */
  readonly path: string
  /** The input field that is the whole body; `*`: the body's members are the remaining fields. */
  readonly body?: string
  /** `bytes`: the body is a stream of any media type, and its field gets a ByteSource (core/bytes.ts). */
  readonly takes?: 'bytes'
  /** The media type of such a body, or of a reply of bytes, for the documentation; where absent, any. */
  readonly bytesType?: string
  /** Of a JSON body, where it may be larger than others. */
  readonly bodyBytesMax?: number
  /** Media types of JSON that the body may have; `application/json` alone where absent. */
  readonly json?: readonly string[]
  /** Media types besides JSON, each with the input field that takes the text. */
  readonly texts?: Readonly<Record<string, string>>
  /** Fields that stand in the query although the body has all others. */
  readonly query?: readonly string[]
  /** The input field that gathers all other query parameters, as pairs of name and value in their order. */
  readonly rest?: string
  /** Input fields that come from headers. `prefer` yields the seconds of `wait=N` (RFC 7240), `x-request-id` the
   * id under which the request is logged, also where none was sent. */
  readonly headers?: Readonly<Record<string, BoundHeader>>
  /** Input fields that `Prefer: <field>=<value>` gives where they come in no other way. */
  readonly preferences?: readonly string[]
  /**
   * `feed`: the output is a Feed, sent as server-sent events. Such an operation is for the HTTP door alone.
   * `bytes`: the output is a ByteReply; other doors give its text, JSON or base64.
   */
  readonly reply?: 'feed' | 'bytes'
  /** The output field that is the whole reply. Flows and tools are handed that field as well. */
  readonly replyBody?: string
  /** Output fields that go into headers of the reply, each with the header's name. */
  readonly replyHeaders?: Readonly<Record<string, string>>
  /** An anon key may stand in the query, for browsers that cannot set headers (interface.md §5). */
  readonly keyInQuery?: boolean
  /** 200 where absent. */
  readonly status?: (output: Output) => number
  /** Other statuses that the same output may come with, for the OpenAPI document. */
  readonly also?: readonly number[]
  readonly location?: (output: Output, input: Readonly<Record<string, unknown>>) => string | undefined
  readonly etag?: (output: Output) => string | undefined
}

/** A further scope that some inputs of an operation need. */
interface FurtherScope<Input> {
  readonly scope: string
  readonly when: (input: Input) => boolean
}

/** What sort of scope `run` is given: the structure of tenants, the inside of one workspace, or the caller alone. */
export type Reach = 'admin' | 'workspace' | 'caller'

export interface Operation<Scope = never, Input = never, Output = unknown> {
  /** `noun.verb`, stable: operationId, tool name, log field, name in `call:` of flows. */
  readonly name: string
  readonly summary: string
  readonly reach: Reach
  /** `any`: for callers of both, since it reaches nothing but the caller. */
  readonly domain: Domain | 'any'
  readonly roles: readonly Role[]
  readonly stability: Stability
  /** Changes nothing: may be a tool of the read-only MCP server. */
  readonly reads: boolean
  /**
   * Of an operation that reads what admins do not see otherwise: the tenants whose data its input is. Each call leaves
   * an entry in the audit log; an operator's, one in the chain of each of these tenants.
   */
  readonly reveals?: (input: Input) => readonly string[]
  /** What a narrowed key or token needs for it (core/policy.ts); undefined for what is none of a key's affairs. */
  readonly requiredScope: string | undefined
  readonly alsoNeeds?: FurtherScope<Input>
  readonly input: TObject
  readonly output: TSchema
  readonly http: HttpBinding<Output>
  readonly parse: (input: unknown) => Input
  readonly run: (scope: Scope, input: Input) => Promise<Output>
}

/** Any operation, for lists: its own types are known only to itself. */
// biome-ignore lint/suspicious/noExplicitAny: a list of operations is heterogeneous; doors call them through `parse`
export type AnyOperation = Operation<any, any, any>

export interface OperationSpec<Scope, I extends TObject, O extends TSchema> {
  readonly name: string
  readonly summary: string
  readonly roles: readonly Role[]
  readonly stability?: Stability
  /** Where absent, what GET and HEAD do. */
  readonly reads?: boolean
  readonly reveals?: (input: Static<I>) => readonly string[]
  /** Of its scope, where that is not the plural of the noun. */
  readonly area?: string
  readonly alsoNeeds?: FurtherScope<Static<I>>
  readonly input: I
  readonly output: O
  readonly http: HttpBinding<Static<O>>
  readonly run: (scope: Scope, input: Static<I>) => Promise<Static<O>>
}

/** Declares an operation. @throws TypeError where roles of both domains meet in one that reaches more than its caller. */
export function operation<Scope, I extends TObject, O extends TSchema>(
  reach: Reach,
  spec: OperationSpec<Scope, I, O>,
): Operation<Scope, Static<I>, Static<O>> {
  const domains = new Set(spec.roles.map(domainOf))
  const [domain] = domains
  if (domain === undefined || domains.size > 1 !== (reach === 'caller'))
    throw new TypeError(`${spec.name}: roles of one domain, please`)
  const reads = spec.reads ?? (spec.http.method === 'GET' || spec.http.method === 'HEAD')
  return {
    stability: 'stable',
    ...spec,
    reads,
    reach,
    domain: reach === 'caller' ? 'any' : domain,
    requiredScope:
      reach !== 'caller' && domain === 'data_access' ? scopeOf(spec.name, spec.area, reads) : undefined,
    parse: parser(spec.input, spec.http),
  }
}

/** A parser of the input schema that reports every fault at once, each with where the field came from. */
function parser<I extends TObject, O>(schema: I, http: HttpBinding<O>): (input: unknown) => Static<I> {
  let compiled: ReturnType<typeof Compile> | undefined
  return (input) => {
    compiled ??= Compile(schema)
    if (compiled.Check(input)) return input as Static<I>
    const excess = excessOf(schema, input).map(({ pointer, detail }) => inputError(pointer, detail, http))
    const errors = excess.length > 0 ? excess : faultsOf(compiled, input, http)
    throw new Problem('validation_failed', {
      detail: errors.map((error) => `${error.name}: ${error.detail}`).join('; '),
      errors,
    })
  }
}

function faultsOf<O>(
  compiled: ReturnType<typeof Compile>,
  input: unknown,
  http: HttpBinding<O>,
): InputError[] {
  return errorsOf(compiled, input)
    .filter((error) => error.keyword !== 'boolean') // the shadow of additionalProperties: false
    .flatMap((error) => inputErrors(error, http))
    .slice(0, LIMITS.faultsShownMax)
}

/** Items that must differ are compared to any depth, which the stack has not. */
function errorsOf(compiled: ReturnType<typeof Compile>, input: unknown): SchemaError[] {
  try {
    return compiled.Errors(input)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw new Problem('validation_failed', { detail: 'The input is nested too deeply.', cause })
  }
}

interface SchemaError {
  readonly keyword: string
  readonly instancePath: string
  readonly message: string
  readonly params: object
}

function inputErrors<O>(error: SchemaError, http: HttpBinding<O>): InputError[] {
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
  const whole = place === 'body' && http.body === field
  const inside = whole ? pointer.slice(field.length + 1) : pointer
  return { in: place, name: inside.split('/').slice(1).join('.') || field, pointer: inside, detail }
}

/** What a caller is handed of an output: all of it, or the one field that the binding names. */
export function replyOf(operation: AnyOperation, output: unknown): unknown {
  if (output instanceof Serialized) return output.parsed()
  const { replyBody } = operation.http
  return replyBody === undefined ? output : (output as Record<string, unknown>)[replyBody]
}

/** Where on the wire an input field stands. */
export function placeOf<O>(field: string, http: HttpBinding<O>): InputError['in'] {
  if (http.path.includes(`{${field}}`) || http.path.endsWith(`{${field}*}`)) return 'path'
  if (http.headers?.[field] !== undefined) return 'header'
  if (http.query?.includes(field)) return 'query'
  if (http.body === '*' || http.body === field) return 'body'
  return 'query'
}

/** Names of query parameters that are not spelled like their field (interface.md §4). */
export const QUERY_NAMES: Readonly<Record<string, string>> = {
  page_size: 'page[size]',
  page_after: 'page[after]',
}

/** A place of the input, as a JSON pointer, and what is wrong there. */
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
 * The first list that is longer than it may be, or the first object with more unknown members than are ever shown, of
 * which it names some; empty where there is neither.
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
  // The library names each of them twice, and nothing but them where they are so many.
  if (unknown.length >= LIMITS.faultsShownMax)
    return unknown.slice(0, LIMITS.faultsShownMax).map(unknownIn(pointer))
  const members = Object.entries(value).filter(([name]) => known(name))
  return first(members, (name) => properties[name] ?? {}, pointer)
}

const unknownIn = (pointer: string) => (name: string) => ({
  pointer: `${pointer}/${cutToken(name)}`,
  detail: 'is not a known field',
})

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
