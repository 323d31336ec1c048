/** `call`: asks a function of the catalogue, or another server by HTTP (OWS 1.0 "Call"). */

import { type CatalogueFunction, type Checker, SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { isObject } from '../json.ts'
import { entryOf, type LocatedMap, type Place } from '../located.ts'
import { secretsOf } from '../use/declarations.ts'
import { cataloguedName } from '../use/functions.ts'
import {
  compileHttp,
  compileOpenApi,
  type HttpBody,
  type OpenApiBody,
  openApiCallOf,
  requestOf,
  summaryOf,
} from './call-http.ts'
import { compileLocal, type TaskType } from './task.ts'

interface FunctionBody {
  readonly function: string
  readonly arguments: Template
  readonly local?: true
}

/** Kinds of call that OWS has and this release has not. */
const LATER = ['asyncapi', 'grpc', 'a2a', 'mcp']

export const call: TaskType<FunctionBody | HttpBody | OpenApiBody> = {
  kind: 'call',
  keys: ['call', 'with'],
  isAnswered: true,
  compile(task, { checker }) {
    const given = entryOf(task, 'call')?.value
    if (given?.kind !== 'scalar' || checker.text(given, '`call`') === undefined) {
      return given && checker.fault('wrong_type', given, '`call` must be a string.')
    }
    const name = cataloguedName(given, checker)
    if (name === undefined) return undefined
    checker.functions.add(name)
    if (name === 'http') return compileHttp(task, checker)
    if (name === 'openapi') return compileOpenApi(task, checker)
    const known = Object.hasOwn(checker.catalogue, name) ? checker.catalogue[name] : undefined
    return known === undefined
      ? noFunction(task, name, given, checker)
      : compileFunction(task, name, known, checker)
  },
  start(body, running) {
    if ('endpoint' in body) {
      const how = body.local === undefined ? {} : { local: body.local }
      return {
        own: null,
        begin: [{ key: 'call', call: 'http', arguments: requestOf(body, running), ...how }],
      }
    }
    if ('document' in body) {
      return { own: null, begin: [{ key: 'call', call: 'openapi', arguments: openApiCallOf(body, running) }] }
    }
    const args = running.evaluate(body.arguments, running.input)
    const given = isObject(args) ? args : {}
    const { local } = body
    const how = local === undefined ? {} : { local }
    return { own: null, begin: [{ key: 'call', call: body.function, arguments: given, ...how }] }
  },
  next(_body, _own, { output }) {
    return { done: output }
  },
  summary(body) {
    if ('endpoint' in body) return summaryOf(body)
    return `call ${'document' in body ? 'openapi' : body.function}`
  },
}

/** Whatever its arguments are, they must be a mapping. */
function noFunction(task: LocatedMap, name: string, at: Place, checker: Checker): undefined {
  const args = entryOf(task, 'with')
  if (args !== undefined) checker.map(args.value, '`with`')
  if (LATER.includes(name)) {
    const message = `\`call: ${name}\` is known to the language and not supported in this release.`
    return checker.fault('unsupported_call', at, message)
  }
  const known = ['http', 'openapi', ...checker.declared.names('functions'), ...Object.keys(checker.catalogue)]
  return checker.unknown('unknown_function', at, `There is no function \`${name}\`.`, name, known)
}

function compileFunction(
  task: LocatedMap,
  name: string,
  { required, optional, local, stores }: CatalogueFunction,
  checker: Checker,
): FunctionBody | undefined {
  const given = entryOf(task, 'with')
  const args = given && checker.map(given.value, '`with`')
  if (given !== undefined && args === undefined) return undefined
  for (const missing of required.filter((key) => args === undefined || entryOf(args, key) === undefined)) {
    checker.fault('missing_argument', given?.at ?? task, `\`${name}\` needs the argument \`${missing}\`.`)
  }
  const known = [...required, ...optional]
  for (const { key, at } of args?.entries ?? []) {
    if (known.includes(key)) continue
    checker.unknown('unknown_argument', at, `\`${name}\` has no argument \`${key}\`.`, key, known)
  }
  const template = args === undefined ? ({ literal: {} } as const) : checker.fields(args, SCOPES.task)
  if (stores && args !== undefined && template !== undefined) refuseSecrets(name, args, template, checker)
  const isLocal = compileLocal(task, { may: local === true, does: local === true }, checker)
  return template && { function: name, arguments: template, ...(isLocal && { local: true }) }
}

/** What an argument holds of a secret at run time is refused there; here, what the definition itself says. */
function refuseSecrets(name: string, args: LocatedMap, template: Template, checker: Checker): void {
  const fields = 'object' in template ? template.object : []
  for (const [key, value] of fields) {
    const [secret] = secretsOf(value)
    if (secret === undefined) continue
    const message = `\`${name}\` would store the secret \`${secret}\`, and others read what it stores.`
    const hint = 'Leave the secret out; a call to another server or a function may be given it.'
    checker.fault('secret_stored', entryOf(args, key)?.value ?? args, message, hint)
  }
}
