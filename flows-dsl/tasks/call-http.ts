/** Compiles the arguments of `call: http` and `call: openapi` and builds requests (OWS 1.0 "HTTP Call", "OpenAPI Call"). */

import { type CompileContext, isExpression, SCOPES } from '../compile/compile-context.ts'
import { type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { type Authentication, compileAuthentication } from '../components/authentication.ts'
import { secretsOf } from '../components/components.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import { compileInlineOption, literalField, type TaskContext } from './task.ts'

/** `endpoint` is an expression, or a URI split at its variables: text, name, text, name, … */
export interface HttpBody {
  readonly endpoint: Template | { readonly uri: readonly string[] }
  readonly arguments: Template
  readonly authentication?: Authentication
  /** `true` in flows that older compilers have published. */
  readonly local?: true | 'brief'
}

export interface OpenApiBody {
  readonly document: Pick<HttpBody, 'endpoint' | 'authentication'>
  /** `operationId`, `parameters`, `output` and `redirect`. */
  readonly arguments: Template
  readonly authentication?: Authentication
}

export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
/** Safe methods (RFC 9110 §9.2.1). */
export const SAFE_METHODS: ReadonlySet<unknown> = new Set(['GET', 'HEAD', 'OPTIONS'])
export const HTTP_OUTPUTS = ['content', 'response', 'raw']
/** Fields of the object that a response is stored as. */
const TARGET_KEYS = ['bucket', 'key', 'content_type']
export const HTTP_ERRORS = ['fault', 'data']
/** How often a request is sent if its worker is lost. */
export const DELIVERIES = ['at_most_once', 'at_least_once']
const OPTION_KEYS = ['output', 'redirect', 'errors', 'delivery']
const HTTP_KEYS = ['method', 'endpoint', 'headers', 'query', 'body', ...OPTION_KEYS]
const OPENAPI_KEYS = ['document', 'operationId', 'parameters', 'authentication', ...OPTION_KEYS]

export function compileHttp(task: MapNode, context: CompileContext): HttpBody | undefined {
  const args = context.requiredMap(task, '`call: http`', 'with', HTTP_KEYS)
  if (args === undefined) return undefined
  const endpoint = compileEndpoint(args, '`with`', context)
  const method = context.required(args, '`with`', 'method')
  context.wordOrExpression(args, 'method', METHODS)
  for (const name of ['headers', 'query']) checkMapping(args, name, context)
  checkOptions(args, context, { mayStore: true })
  const template = fieldsExcept(args, ['endpoint'], context)
  checkStored(args, template, context)
  const authentication = compileEndpointAuthentication(args, context)
  if (endpoint === undefined || template === undefined) return undefined
  const mayBeInline = isSafe(method) && mayRepeat(args) && valueAt(args, 'output')?.kind !== 'map'
  const isInline = compileInlineOption(task, mayBeInline, context)
  return {
    endpoint,
    arguments: template,
    ...(authentication !== undefined && { authentication }),
    ...(isInline && { local: 'brief' as const }),
  }
}

export function compileOpenApi(task: MapNode, context: CompileContext): OpenApiBody | undefined {
  const args = context.requiredMap(task, '`call: openapi`', 'with', OPENAPI_KEYS)
  if (args === undefined) return undefined
  const document = compileDocument(args, context)
  context.requiredText(args, '`with`', 'operationId')
  checkMapping(args, 'parameters', context)
  checkOptions(args, context)
  const node = valueAt(args, 'authentication')
  const authentication = node && compileAuthentication(node, context)
  const template = fieldsExcept(args, ['document', 'authentication'], context)
  if (document === undefined || template === undefined) return undefined
  return { document, arguments: template, ...(authentication !== undefined && { authentication }) }
}

function compileDocument(args: MapNode, context: CompileContext): OpenApiBody['document'] | undefined {
  const document = context.requiredMap(args, '`with`', 'document', ['name', 'endpoint'])
  if (document === undefined) return undefined
  const endpoint = compileEndpoint(document, '`document`', context)
  const authentication = compileEndpointAuthentication(document, context)
  return endpoint && { endpoint, ...(authentication !== undefined && { authentication }) }
}

/** A string, or a mapping with `uri`; `{name}` in it is replaced by a field of the input. */
function compileEndpoint(
  args: MapNode,
  what: string,
  context: CompileContext,
): HttpBody['endpoint'] | undefined {
  const node = context.required(args, what, 'endpoint')
  if (node?.kind === 'map') context.keys(node, '`endpoint`', ['uri', 'authentication'])
  const uri = node?.kind === 'map' ? context.required(node, '`endpoint`', 'uri') : node
  if (uri === undefined) return undefined
  if (isExpression(uri)) {
    const endpoint = context.template(uri, SCOPES.task)
    context.yields(uri, '`endpoint`', endpoint, ['string'])
    return endpoint
  }
  const text = context.text(uri, '`endpoint`')
  if (text === undefined) return undefined
  const parts = text.split(/\{([A-Za-z0-9_][A-Za-z0-9_.-]*)\}/)
  const isPlain = parts.every((part, index) => index % 2 === 1 || !/[{}\s]/.test(part))
  if (isPlain && /^https?:\/\/./i.test(text)) return { uri: parts }
  const hint = 'Write https://api.example.com/pets/{petId}, where petId is a field of the input.'
  return context.report('value_invalid', uri, '`endpoint` must be an absolute http or https URI.', hint)
}

function compileEndpointAuthentication(args: MapNode, context: CompileContext): Authentication | undefined {
  const endpoint = valueAt(args, 'endpoint')
  const node = endpoint?.kind === 'map' ? valueAt(endpoint, 'authentication') : undefined
  return node && compileAuthentication(node, context)
}

function fieldsExcept(
  args: MapNode,
  compiled: readonly string[],
  context: CompileContext,
): Template | undefined {
  const entries = args.entries.filter(({ key }) => !compiled.includes(key))
  return context.fields({ ...args, entries }, SCOPES.task)
}

/** Safe methods change nothing (RFC 9110 §9.2.1). */
function isSafe(method: SourceNode | undefined): boolean {
  return method?.kind === 'scalar' && /^(get|head)$/i.test(String(method.value))
}

function checkMapping(args: MapNode, key: string, context: CompileContext): void {
  const value = valueAt(args, key)
  if (value !== undefined && !isExpression(value)) context.map(value, `\`${key}\``)
}

/** An inline request may be sent twice, which `at_most_once` and an expression that may yield it rule out. */
function mayRepeat(args: MapNode): boolean {
  const delivery = valueAt(args, 'delivery')
  return delivery === undefined || (delivery.kind === 'scalar' && delivery.value === 'at_least_once')
}

/** The options `output`, `redirect`, `errors` and `delivery`. @param options `mayStore`: `output` may name an object */
function checkOptions(args: MapNode, context: CompileContext, { mayStore } = { mayStore: false }): void {
  const output = valueAt(args, 'output')
  if (mayStore && output?.kind === 'map') checkTarget(args, context)
  else context.wordOrExpression(args, 'output', HTTP_OUTPUTS)
  context.wordOrExpression(args, 'errors', HTTP_ERRORS)
  context.wordOrExpression(args, 'delivery', DELIVERIES)
  checkErrorsAsData(args, context)
  const redirect = valueAt(args, 'redirect')
  if (redirect !== undefined && !isExpression(redirect)) context.boolean(args, 'redirect', false)
}

/** `output: {object: {bucket, key, content_type?}}`: the response is stored as an object, without passing through the execution. */
function checkTarget(args: MapNode, context: CompileContext): void {
  const output = context.requiredMap(args, '`with`', 'output', ['object'])
  const object = output && context.requiredMap(output, '`output`', 'object', TARGET_KEYS)
  if (object === undefined) return
  for (const key of ['bucket', 'key']) context.requiredText(object, '`object`', key)
  context.optionalText(object, 'content_type')
}

/** The name of an object can be read by others. */
function checkStored(args: MapNode, template: Template | undefined, context: CompileContext): void {
  const output = valueAt(args, 'output')
  const fields = template !== undefined && 'object' in template ? template.object : []
  const [secret] = fields.flatMap(([key, value]) => (key === 'output' ? secretsOf(value) : []))
  if (secret === undefined || output?.kind !== 'map') return
  const message = `\`output\` would store the secret \`${secret}\`, which others could then read.`
  context.report('secret_stored', output, message, 'Name the object without the secret.')
}

/** With `errors: data`, only the status tells an error from a success. */
function checkErrorsAsData(args: MapNode, context: CompileContext): void {
  const [errors, output] = [valueAt(args, 'errors'), valueAt(args, 'output')]
  if (errors?.kind !== 'scalar' || errors.value !== 'data') return
  if (
    output !== undefined &&
    (isExpression(output) || (output.kind === 'scalar' && output.value === 'response'))
  )
    return
  const message = '`errors: data` needs `output: response`, which has the status.'
  context.report(
    'value_invalid',
    errors,
    message,
    'Add `output: response`, which has the status in `.statusCode`.',
  )
}

/**
 * The request as data: `method` in capitals, `endpoint` a string, `output` and `redirect` always present.
 * @throws FlowError (expression) if the endpoint cannot be built
 */
export function requestOf(body: HttpBody, task: TaskContext): JsonObject {
  const endpoint = endpointOf(body.endpoint, task)
  const value = task.evaluate(body.arguments, task.input)
  const args = isObject(value) ? value : {}
  return objectOf([
    ...Object.entries(args),
    ['endpoint', endpoint],
    ['method', String(fieldOf(args, 'method')).toUpperCase()],
    ['output', fieldOf(args, 'output') ?? 'content'],
    ['redirect', fieldOf(args, 'redirect') ?? false],
    ...Object.entries(authenticationOf(body, task)),
  ])
}

/**
 * The call as data: `{document: {endpoint, authentication?}, operationId, parameters?, output?, redirect?,
 * authentication?}`.
 * @throws FlowError (expression) if the endpoint of the document cannot be built
 */
export function openApiCallOf(body: OpenApiBody, task: TaskContext): JsonObject {
  const { document } = body
  const endpoint = endpointOf(document.endpoint, task)
  const value = task.evaluate(body.arguments, task.input)
  return {
    ...(isObject(value) ? value : {}),
    document: { endpoint, ...authenticationOf(document, task) },
    ...authenticationOf(body, task),
  }
}

function endpointOf(endpoint: HttpBody['endpoint'], task: TaskContext): string {
  const { input } = task
  const uri = 'uri' in endpoint ? expandUri(endpoint.uri, input) : task.evaluate(endpoint, input)
  if (typeof uri === 'string') return uri
  throw new FlowError(ERRORS.expression, 'The endpoint must be a string.')
}

/** The authentication with its properties evaluated; a secret is passed by its name. */
function authenticationOf(
  { authentication }: Pick<HttpBody, 'authentication'>,
  task: TaskContext,
): JsonObject {
  if (authentication === undefined) return {}
  const { properties, ...named } = authentication
  const values = properties && task.evaluate(properties, task.input)
  return { authentication: { ...named, ...(values !== undefined && { properties: values }) } }
}

/**
 * Simple string expansion (RFC 6570 §3.2.2) of top-level fields by name. A missing or empty value is rejected, although
 * RFC 6570 allows it: `/orders/{id}` without an id would address all orders. So are values that would form a dot segment.
 */
function expandUri(parts: readonly string[], input: Json): string {
  const uri = parts.map((part, index) => (index % 2 === 0 ? part : encodeField(part, input))).join('')
  if (parts.length === 1 || !/\/(\.|%2e){1,2}(?=[/?#]|$)/i.test(uri)) return uri
  throw new FlowError(ERRORS.expression, 'A variable of the endpoint must not make a segment `.` or `..`.')
}

function encodeField(name: string, input: Json): string {
  const value = isObject(input) ? fieldOf(input, name) : undefined
  const isText = value !== null && value !== '' && value !== undefined && typeof value !== 'object'
  if (isText) return encodeURIComponent(String(value))
  const detail = `\`{${name}}\` of the endpoint: ${unusable(name, value)}.`
  throw new FlowError(ERRORS.expression, detail)
}

function unusable(name: string, value: Json | undefined): string {
  if (value === undefined) return `the input of the task has no \`${name}\``
  const what =
    value === null ? 'null' : value === '' ? 'empty' : Array.isArray(value) ? 'a list' : 'a mapping'
  return `\`${name}\` in the input of the task is ${what}, not a text, number or boolean`
}

export function summaryOf({ arguments: args, endpoint }: HttpBody): string {
  const method = literalField(args, 'method') ?? 'http'
  const uri =
    'uri' in endpoint ? endpoint.uri.map((part, i) => (i % 2 === 0 ? part : `{${part}}`)).join('') : ''
  return `${String(method).toUpperCase()} ${uri}`.trim()
}
