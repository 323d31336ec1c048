/** `call`: calls a function of the catalogue, or another server by HTTP (OWS 1.0 "Call"). */

import { type CatalogueFunction, type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { durationOf, dynamicDuration } from '../compile/duration.ts'
import { entryOf, type Location, type MapNode, valueAt } from '../compile/source-nodes.ts'
import { secretsOf } from '../components/components.ts'
import { resolveCatalogName } from '../components/functions.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Duration, Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import {
  compileHttp,
  compileOpenApi,
  type HttpBody,
  type OpenApiBody,
  openApiCallOf,
  requestOf,
  summaryOf,
} from './call-http.ts'
import { compileMcp, MCP, type McpBody, mcpCallOf, toolPath } from './call-mcp.ts'
import {
  type Child,
  type ChildResult,
  compileInlineOption,
  type TaskContext,
  type TaskType,
  type Transition,
} from './task.ts'

interface WithCallback {
  /** The call is complete when its callback was posted, at most this long after it began. */
  readonly callbackMs?: Duration
}

interface FunctionBody extends WithCallback {
  readonly function: string
  readonly arguments: Template
  readonly local?: true
}

type CallBody = FunctionBody | ((HttpBody | OpenApiBody | McpBody) & WithCallback)

/** Kinds of call that OWS has and this release does not support. */
export const UNSUPPORTED_CALLS = ['asyncapi', 'grpc', 'a2a']

export const call: TaskType<CallBody> = {
  kind: 'call',
  keys: ['call', 'with', 'awaitCallback'],
  returnsEffectResult: true,
  compile(task, { context }) {
    const callback = compileCallback(task, context)
    const body = context.withVariables(callback === undefined ? [] : [CALLBACK], () =>
      compileCall(task, context),
    )
    return body && { ...body, ...callback }
  },
  answeredBy(body) {
    return isMcp(body) ? [toolPath(mcpCallOf(body)), MCP] : [nameOf(body)]
  },
  start(body, task) {
    if (body.callbackMs === undefined) return { taskState: null, start: [callOf(body, task)] }
    const timeoutMs = durationOf(body.callbackMs, '`timeout`', 1, (template) =>
      task.evaluate(template, task.input),
    )
    const state: Called = { untilMs: task.nowMs() + timeoutMs }
    const open = { key: 'open', await: OPEN_CALLBACK, details: { timeout_ms: timeoutMs } }
    return { taskState: state as unknown as Json, start: [open] }
  },
  onChildEnd(body, taskState, ended, task) {
    if (body.callbackMs === undefined) return { done: ended.output }
    return callbackTransition(body, taskState as unknown as Called, ended, task)
  },
  onMessage(_body, taskState, message) {
    const state = taskState as unknown as Called | null
    if (!('callback' in message) || state?.id !== message.callback.id) return undefined
    const { output } = message.callback
    // An answer may come before the call itself has returned.
    return state.isWaiting
      ? { done: output }
      : { taskState: { ...state, received: { output } } as unknown as Json }
  },
  summary(body) {
    if ('endpoint' in body) return summaryOf(body)
    return `call ${isMcp(body) ? toolPath(mcpCallOf(body)) : nameOf(body)}`
  },
}

function compileCall(task: MapNode, context: CompileContext): CallBody | undefined {
  const node = valueAt(task, 'call')
  if (node?.kind !== 'scalar' || context.text(node, '`call`') === undefined) {
    return node && context.report('wrong_type', node, '`call` must be a string.')
  }
  const name = resolveCatalogName(node, context)
  if (name === undefined) return undefined
  context.functions.add(name)
  if (name === 'http') return compileHttp(task, context)
  if (name === 'openapi') return compileOpenApi(task, context)
  if (name === MCP) return compileMcp(task, context)
  const known = fieldOf(context.catalogue, name)
  return known === undefined
    ? reportFunction(task, name, node, context)
    : compileFunction(task, name, known, context)
}

/** The variable with the URL of the callback, and the kinds of effects that open and await it. */
const CALLBACK = 'callback'
export const OPEN_CALLBACK = 'callback.open'
export const AWAIT_CALLBACK = 'callback'

/** The name by which a simulation answers the callback of a task. */
export const callbackName = (task: string): string => `${task}.callback`

/** Tests if a call is complete only when its callback was posted. */
export const hasCallback = (body: unknown): boolean => (body as CallBody).callbackMs !== undefined

/** A call with a callback. */
interface Called {
  /** Of the callback, once it is open. */
  readonly id?: string
  /** When the callback expires. */
  readonly untilMs: number
  /** The call has returned. */
  readonly isWaiting?: true
  /** The callback came before that. */
  readonly received?: { readonly output: Json }
}

function compileCallback(task: MapNode, context: CompileContext): Required<WithCallback> | undefined {
  if (entryOf(task, 'awaitCallback') === undefined) return undefined
  const map = context.optionalMap(task, 'awaitCallback', ['timeout'])
  const timeout = map && context.required(map, '`awaitCallback`', 'timeout')
  const callbackMs = timeout && dynamicDuration(timeout, '`timeout`', 1, SCOPES.task, context)
  return callbackMs === undefined ? undefined : { callbackMs }
}

/** Opens the callback, makes the call with its URL, then waits for it. */
function callbackTransition(
  body: CallBody,
  state: Called,
  { key, output }: ChildResult,
  task: TaskContext,
): Transition {
  if (key === 'open') {
    const opened = isObject(output) ? output : {}
    // A rerun reuses the recorded answer.
    if ('output' in opened) return { done: opened['output'] ?? null }
    const called: Called = { ...state, id: String(opened['id']) }
    const variables = { [CALLBACK]: { url: opened['url'] ?? null } }
    return { taskState: called as unknown as Json, start: [callOf(body, withVariables(task, variables))] }
  }
  if (key === 'expiry') throw new FlowError(ERRORS.timeout, 'The callback did not arrive in time.')
  if (key === AWAIT_CALLBACK) return { done: output }
  if (state.received !== undefined) return { done: state.received.output }
  const sleepMs = Math.max(1, state.untilMs - task.nowMs())
  return {
    taskState: { ...state, isWaiting: true },
    start: [
      { key: AWAIT_CALLBACK, await: AWAIT_CALLBACK, details: {} },
      { key: 'expiry', sleepMs, summary: 'callback', limits: true },
    ],
  }
}

/** The task with more variables for its expressions. */
function withVariables(task: TaskContext, variables: JsonObject): TaskContext {
  return {
    ...task,
    evaluate: (template, dot, more) => task.evaluate(template, dot, { ...variables, ...more }),
  }
}

function callOf(body: CallBody, task: TaskContext): Child {
  const local = 'local' in body && body.local !== undefined ? { local: body.local } : {}
  return { key: 'call', call: nameOf(body), arguments: argumentsOf(body, task), ...local }
}

const isMcp = (body: CallBody): body is McpBody => 'function' in body && body.function === MCP

function nameOf(body: CallBody): string {
  if ('function' in body) return body.function
  return 'endpoint' in body ? 'http' : 'openapi'
}

function argumentsOf(body: CallBody, task: TaskContext): JsonObject {
  if ('endpoint' in body) return requestOf(body, task)
  if ('document' in body) return openApiCallOf(body, task)
  const args = task.evaluate(body.arguments, task.input)
  return isObject(args) ? args : {}
}

/** Reports an unknown function. Its arguments must be a mapping nevertheless. */
function reportFunction(task: MapNode, name: string, at: Location, context: CompileContext): undefined {
  context.optionalMap(task, 'with')
  if (UNSUPPORTED_CALLS.includes(name)) {
    const message = `\`call: ${name}\` is part of the language, but not supported in this release.`
    return context.report(
      'unsupported_call',
      at,
      message,
      'Use `call: http` or `call: openapi`, or deploy a function.',
    )
  }
  const known = [
    'http',
    'openapi',
    MCP,
    ...context.components.names('functions'),
    ...Object.keys(context.catalogue),
  ]
  return context.reportUnknown('unknown_function', at, `There is no function \`${name}\`.`, name, known)
}

function compileFunction(
  task: MapNode,
  name: string,
  { required, optional, local, stores }: CatalogueFunction,
  context: CompileContext,
): FunctionBody | undefined {
  const withEntry = entryOf(task, 'with')
  const args = withEntry && context.map(withEntry.value, '`with`')
  if (withEntry !== undefined && args === undefined) return undefined
  for (const missing of required.filter((key) => args === undefined || entryOf(args, key) === undefined)) {
    context.report(
      'missing_argument',
      withEntry?.at ?? task,
      `\`${name}\` needs the argument \`${missing}\`.`,
    )
  }
  const known = [...required, ...optional]
  for (const { key, at } of args?.entries ?? []) {
    if (known.includes(key)) continue
    const message = `\`${name}\` has no argument \`${key}\`.`
    if (key === 'name' && required.includes('id'))
      context.report('unknown_argument', at, message, 'Did you mean id? It accepts a name, too.')
    else context.reportUnknown('unknown_argument', at, message, key, known)
  }
  const template = args === undefined ? ({ literal: {} } as const) : context.fields(args, SCOPES.task)
  if (stores && args !== undefined && template !== undefined) checkNoSecrets(name, args, template, context)
  const isInline = compileInlineOption(task, local === true, context)
  return template && { function: name, arguments: template, ...(isInline && { local: true }) }
}

/** Secrets in the definition are found here; secrets in data are found by the function, at run time. */
function checkNoSecrets(name: string, args: MapNode, template: Template, context: CompileContext): void {
  const fields = 'object' in template ? template.object : []
  for (const [key, value] of fields) {
    const [secret] = secretsOf(value)
    if (secret === undefined) continue
    const message = `\`${name}\` would store the secret \`${secret}\`, which others could then read.`
    const hint = 'Leave the secret out. Only calls of other servers and functions can receive secrets.'
    context.report('secret_stored', valueAt(args, key) ?? args, message, hint)
  }
}
