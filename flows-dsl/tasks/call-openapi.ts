/** The arguments of `call: openapi` (OWS 1.0 "OpenAPI Call", "External Resource"): checked here, called elsewhere. */

import { type Checker, SCOPES } from '../checker.ts'
import type { JsonObject, Template } from '../ir.ts'
import { isObject } from '../json.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { type Authentication, compileAuthentication } from '../use/authentication.ts'
import {
  authenticated,
  checkAnswer,
  compileEndpoint,
  compileOwn,
  endpointOf,
  type HttpBody,
  isExpression,
} from './call-http.ts'
import type { Running } from './task.ts'

export interface OpenApiBody {
  readonly document: Pick<HttpBody, 'endpoint' | 'authentication'>
  /** `operationId`, `parameters`, `output` and `redirect`. */
  readonly arguments: Template
  readonly authentication?: Authentication
}

const KEYS = ['document', 'operationId', 'parameters', 'authentication', 'output', 'redirect']
const COMPILED = ['document', 'authentication']

export function compileOpenApi(task: LocatedMap, checker: Checker): OpenApiBody | undefined {
  const given = checker.required(task, '`call: openapi`', 'with')
  const args = given && checker.map(given, '`with`')
  if (args === undefined) return undefined
  checker.keys(args, '`with`', KEYS)
  const document = compileDocument(checker.required(args, '`with`', 'document'), checker)
  const operation = checker.required(args, '`with`', 'operationId')
  if (operation !== undefined) checker.text(operation, '`operationId`')
  const parameters = entryOf(args, 'parameters')?.value
  if (parameters !== undefined && !isExpression(parameters)) checker.map(parameters, '`parameters`')
  checkAnswer(args, checker)
  const own = entryOf(args, 'authentication')?.value
  const authentication = own && compileAuthentication(own, checker)
  const rest = { ...args, entries: args.entries.filter(({ key }) => !COMPILED.includes(key)) }
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
