/** Compiles the arguments of `call: http` and `call: openapi` and builds the request (OWS 1.0 "HTTP Call", "OpenAPI Call"). */

import { type Checker, SCOPES } from '../checker.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import { entryOf, type Located, type LocatedMap, type LocatedScalar } from '../located.ts'
import { type Authentication, compileAuthentication } from '../use/authentication.ts'
import { compileLocal, type Running } from './task.ts'

/** `endpoint` is an expression, or a URI cut at its variables: text, name, text, name, … */
export interface HttpBody {
  readonly endpoint: Template | { readonly uri: readonly string[] }
  readonly arguments: Template
  readonly authentication?: Authentication
  /** `true` in versions that were published before calls could be brief. */
  readonly local?: true | 'brief'
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const HTTP_OUTPUTS = ['content', 'response', 'raw']
const HTTP_KEYS = ['method', 'endpoint', 'headers', 'query', 'body', 'output', 'redirect']

export function compileHttp(task: LocatedMap, checker: Checker): HttpBody | undefined {
  const given = checker.required(task, '`call: http`', 'with')
  const args = given && checker.map(given, '`with`')
  if (args === undefined) return undefined
  checker.keys(args, '`with`', HTTP_KEYS)
  const endpoint = compileEndpoint(args, '`with`', checker)
  const method = checker.required(args, '`with`', 'method')
  if (method !== undefined) oneOf(method, '`method`', METHODS, checker)
  for (const name of ['headers', 'query']) {
    const value = entryOf(args, name)?.value
    if (value !== undefined && !isExpression(value)) checker.map(value, `\`${name}\``)
  }
  checkAnswer(args, checker)
  const rest = { ...args, entries: args.entries.filter(({ key }) => key !== 'endpoint') }
  const template = checker.fields(rest, SCOPES.task)
  const authentication = compileOwn(args, checker)
  if (endpoint === undefined || template === undefined) return undefined
  const reads = isReading(method)
  const local = compileLocal(task, { may: reads, does: reads }, checker)
  return {
    endpoint,
    arguments: template,
    ...(authentication !== undefined && { authentication }),
    ...(local && { local: 'brief' as const }),
  }
}

/** Known to change nothing (RFC 9110 §9.2.1). */
function isReading(method: Located | undefined): boolean {
  return method?.kind === 'scalar' && /^(get|head)$/i.test(String(method.value))
}

/** The authentication of the endpoint. */
export function compileOwn(args: LocatedMap, checker: Checker): Authentication | undefined {
  const endpoint = entryOf(args, 'endpoint')?.value
  const given = endpoint?.kind === 'map' ? entryOf(endpoint, 'authentication')?.value : undefined
  return given && compileAuthentication(given, checker)
}

export function isExpression(value: Located): value is LocatedScalar & { readonly value: string } {
  return value.kind === 'scalar' && typeof value.value === 'string' && value.value.includes('${')
}

/** One of several words, in letters of either case, or an expression that yields one. */
/** What is made of the answer: `output` and `redirect`. */
export function checkAnswer(args: LocatedMap, checker: Checker): void {
  const output = entryOf(args, 'output')?.value
  if (output !== undefined) oneOf(output, '`output`', HTTP_OUTPUTS, checker)
  const redirect = entryOf(args, 'redirect')?.value
  if (redirect === undefined || isExpression(redirect)) return
  if (redirect.kind === 'scalar' && typeof redirect.value === 'boolean') return
  checker.fault('wrong_type', redirect, '`redirect` must be true or false.')
}

function oneOf(value: Located, what: string, allowed: readonly string[], checker: Checker): void {
  if (isExpression(value)) return
  const text = checker.text(value, what)
  if (text === undefined || allowed.includes(text) || allowed.includes(text.toUpperCase())) return
  checker.unknown('value_invalid', value, `${what} cannot be \`${text}\`.`, text, allowed)
}

/** A string, or a mapping with `uri`; `{name}` in it stands for a field of the task's input. */
export function compileEndpoint(
  args: LocatedMap,
  what: string,
  checker: Checker,
): HttpBody['endpoint'] | undefined {
  const given = checker.required(args, what, 'endpoint')
  if (given?.kind === 'map') checker.keys(given, '`endpoint`', ['uri', 'authentication'])
  const uri = given?.kind === 'map' ? checker.required(given, '`endpoint`', 'uri') : given
  if (uri === undefined) return undefined
  if (isExpression(uri)) return checker.template(uri, SCOPES.task)
  const text = checker.text(uri, '`endpoint`')
  if (text === undefined) return undefined
  const parts = text.split(/\{([A-Za-z0-9_][A-Za-z0-9_.-]*)\}/)
  const isPlain = parts.every((part, index) => index % 2 === 1 || !/[{}\s]/.test(part))
  if (isPlain && /^https?:\/\/./i.test(text)) return { uri: parts }
  const hint = 'Such as https://api.example.com/pets/{petId}, where petId is a field of the input.'
  return checker.fault('value_invalid', uri, '`endpoint` must be an absolute http or https URI.', hint)
}

/**
 * The request as data: `method` in capitals, `endpoint` a string, `output` and `redirect` always there.
 * @throws FlowError (expression) where the endpoint cannot be made
 */
export function requestOf(body: HttpBody, running: Running): JsonObject {
  const uri = endpointOf(body.endpoint, running)
  const given = running.evaluate(body.arguments, running.input)
  const args = new Map(Object.entries(isObject(given) ? given : {}))
  const method = String(args.get('method')).toUpperCase()
  const output = args.get('output') ?? 'content'
  const redirect = args.get('redirect') ?? false
  return objectOf([
    ...args,
    ['endpoint', uri],
    ['method', method],
    ['output', output],
    ['redirect', redirect],
    ...Object.entries(authenticated(body, running)),
  ])
}

/** @throws FlowError (expression) where it cannot be made */
export function endpointOf(endpoint: HttpBody['endpoint'], running: Running): string {
  const { input } = running
  const uri = 'uri' in endpoint ? expand(endpoint.uri, input) : running.evaluate(endpoint, input)
  if (typeof uri === 'string') return uri
  throw new FlowError(ERRORS.expression, 'The endpoint must be a string.')
}

/** `authentication`: who the call is from, with its properties filled in; a secret goes by its name. */
export function authenticated(
  { authentication }: Pick<HttpBody, 'authentication'>,
  running: Running,
): JsonObject {
  if (authentication === undefined) return {}
  const { properties, ...named } = authentication
  const filled = properties && running.evaluate(properties, running.input)
  return { authentication: { ...named, ...(filled !== undefined && { properties: filled }) } }
}

/**
 * Simple expansion of RFC 6570 §3.2.2, of top-level fields by their names; what is not there is empty (OWS 1.0 "URI
 * Template"). A value that is `..` would lead to another path than the one that is written.
 */
function expand(parts: readonly string[], input: Json): string {
  const texts = parts.map((part, index) => (index % 2 === 0 ? part : encodedField(part, input)))
  const uri = texts.join('')
  if (parts.length === 1 || !/\/(\.|%2e){1,2}(?=[/?#]|$)/i.test(uri)) return uri
  throw new FlowError(ERRORS.expression, 'A variable of the endpoint must not make a segment `.` or `..`.')
}

function encodedField(name: string, input: Json): string {
  const value = (isObject(input) ? fieldOf(input, name) : undefined) ?? ''
  if (typeof value !== 'object') return encodeURIComponent(wellFormed(String(value)))
  const detail = `The endpoint needs \`${name}\`, a string, number or boolean, in the input.`
  throw new FlowError(ERRORS.expression, detail)
}

/** Half a surrogate pair cannot be encoded; it becomes U+FFFD, as in UTF-8. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd')
}

export function summaryOf(body: HttpBody): string {
  const { arguments: args, endpoint } = body
  const literal = 'literal' in args && isObject(args.literal) ? fieldOf(args.literal, 'method') : undefined
  const field = 'object' in args ? args.object.find(([key]) => key === 'method')?.[1] : undefined
  const method = literal ?? (field !== undefined && 'literal' in field ? field.literal : 'http')
  const uri =
    'uri' in endpoint ? endpoint.uri.map((part, i) => (i % 2 === 0 ? part : `{${part}}`)).join('') : ''
  return `${String(method).toUpperCase()} ${uri}`.trim()
}

export interface OpenApiBody {
  readonly document: Pick<HttpBody, 'endpoint' | 'authentication'>
  /** `operationId`, `parameters`, `output` and `redirect`. */
  readonly arguments: Template
  readonly authentication?: Authentication
}

const OPENAPI_KEYS = ['document', 'operationId', 'parameters', 'authentication', 'output', 'redirect']
const OPENAPI_COMPILED = ['document', 'authentication']

export function compileOpenApi(task: LocatedMap, checker: Checker): OpenApiBody | undefined {
  const given = checker.required(task, '`call: openapi`', 'with')
  const args = given && checker.map(given, '`with`')
  if (args === undefined) return undefined
  checker.keys(args, '`with`', OPENAPI_KEYS)
  const document = compileDocument(checker.required(args, '`with`', 'document'), checker)
  const operation = checker.required(args, '`with`', 'operationId')
  if (operation !== undefined) checker.text(operation, '`operationId`')
  const parameters = entryOf(args, 'parameters')?.value
  if (parameters !== undefined && !isExpression(parameters)) checker.map(parameters, '`parameters`')
  checkAnswer(args, checker)
  const own = entryOf(args, 'authentication')?.value
  const authentication = own && compileAuthentication(own, checker)
  const rest = { ...args, entries: args.entries.filter(({ key }) => !OPENAPI_COMPILED.includes(key)) }
  const template = checker.fields(rest, SCOPES.task)
  if (document === undefined || template === undefined) return undefined
  return { document, arguments: template, ...(authentication !== undefined && { authentication }) }
}

function compileDocument(value: Located | undefined, checker: Checker): OpenApiBody['document'] | undefined {
  const document = value && checker.map(value, '`document`')
  if (document === undefined) return undefined
  checker.keys(document, '`document`', ['name', 'endpoint'])
  const endpoint = compileEndpoint(document, '`document`', checker)
  const authentication = compileOwn(document, checker)
  return endpoint && { endpoint, ...(authentication !== undefined && { authentication }) }
}

/**
 * The call as data: `{document: {endpoint, authentication?}, operationId, parameters?, output?, redirect?,
 * authentication?}`.
 * @throws FlowError (expression) where it cannot be made
 */
export function openApiCallOf(body: OpenApiBody, running: Running): JsonObject {
  const { document } = body
  const endpoint = endpointOf(document.endpoint, running)
  const given = running.evaluate(body.arguments, running.input)
  return {
    ...(isObject(given) ? given : {}),
    document: { endpoint, ...authenticated(document, running) },
    ...authenticated(body, running),
  }
}
