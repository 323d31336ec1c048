/** `call`: calls a function of the catalogue, or another server by HTTP (OWS 1.0 "Call"). */

import { type CatalogueFunction, type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { entryOf, type Location, type MapNode, valueAt } from '../compile/source-nodes.ts'
import { secretsOf } from '../components/components.ts'
import { resolveCatalogName } from '../components/functions.ts'
import type { JsonObject, Template } from '../ir.ts'
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
import { compileInlineOption, type TaskContext, type TaskType } from './task.ts'

interface FunctionBody {
  readonly function: string
  readonly arguments: Template
  readonly local?: true
}

type CallBody = FunctionBody | HttpBody | OpenApiBody

/** Kinds of call that OWS has and this release does not support. */
export const UNSUPPORTED_CALLS = ['asyncapi', 'grpc', 'a2a', 'mcp']

export const call: TaskType<CallBody> = {
  kind: 'call',
  keys: ['call', 'with'],
  returnsEffectResult: true,
  compile(task, { context }) {
    const given = valueAt(task, 'call')
    if (given?.kind !== 'scalar' || context.text(given, '`call`') === undefined) {
      return given && context.report('wrong_type', given, '`call` must be a string.')
    }
    const name = resolveCatalogName(given, context)
    if (name === undefined) return undefined
    context.functions.add(name)
    if (name === 'http') return compileHttp(task, context)
    if (name === 'openapi') return compileOpenApi(task, context)
    const known = fieldOf(context.catalogue, name)
    return known === undefined
      ? reportFunction(task, name, given, context)
      : compileFunction(task, name, known, context)
  },
  start(body, task) {
    const local = 'local' in body && body.local !== undefined ? { local: body.local } : {}
    const child = { key: 'call', call: nameOf(body), arguments: argumentsOf(body, task), ...local }
    return { taskState: null, start: [child] }
  },
  onChildEnd(_body, _own, { output }) {
    return { done: output }
  },
  summary(body) {
    return 'endpoint' in body ? summaryOf(body) : `call ${nameOf(body)}`
  },
}

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
    const message = `\`call: ${name}\` is known to the language and not supported in this release.`
    return context.report('unsupported_call', at, message)
  }
  const known = [
    'http',
    'openapi',
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
  const given = entryOf(task, 'with')
  const args = given && context.map(given.value, '`with`')
  if (given !== undefined && args === undefined) return undefined
  for (const missing of required.filter((key) => args === undefined || entryOf(args, key) === undefined)) {
    context.report('missing_argument', given?.at ?? task, `\`${name}\` needs the argument \`${missing}\`.`)
  }
  const known = [...required, ...optional]
  for (const { key, at } of args?.entries ?? []) {
    if (known.includes(key)) continue
    const message = `\`${name}\` has no argument \`${key}\`.`
    if (key === 'name' && required.includes('id'))
      context.report('unknown_argument', at, message, 'Did you mean id? It takes a name, too.')
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
    const message = `\`${name}\` would store the secret \`${secret}\`, and others read what it stores.`
    const hint = 'Leave the secret out; a call to another server or a function may be given it.'
    context.report('secret_stored', valueAt(args, key) ?? args, message, hint)
  }
}
