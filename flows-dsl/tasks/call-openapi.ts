/** The arguments of `call: openapi` (OWS 1.0 "OpenAPI Call", "External Resource"): checked here, called elsewhere. */

import { type Checker, SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { type Authentication, compileAuthentication } from '../use/authentication.ts'
import { checkAnswer, compileEndpoint } from './call-http.ts'

interface OpenApiBody {
  readonly function: 'openapi'
  readonly arguments: Template
  readonly authentication?: Authentication
}

const KEYS = ['document', 'operationId', 'parameters', 'authentication', 'output', 'redirect']

export function compileOpenApi(task: LocatedMap, checker: Checker): OpenApiBody | undefined {
  const given = checker.required(task, '`call: openapi`', 'with')
  const args = given && checker.map(given, '`with`')
  if (args === undefined) return undefined
  checker.keys(args, '`with`', KEYS)
  checkDocument(checker.required(args, '`with`', 'document'), checker)
  const operation = checker.required(args, '`with`', 'operationId')
  if (operation !== undefined) checker.text(operation, '`operationId`')
  const parameters = entryOf(args, 'parameters')?.value
  if (parameters !== undefined) checker.map(parameters, '`parameters`')
  checkAnswer(args, checker)
  const own = entryOf(args, 'authentication')?.value
  const authentication = own && compileAuthentication(own, checker)
  const rest = { ...args, entries: args.entries.filter(({ key }) => key !== 'authentication') }
  const template = checker.fields(rest, SCOPES.task)
  if (template === undefined) return undefined
  return { function: 'openapi', arguments: template, ...(authentication !== undefined && { authentication }) }
}

function checkDocument(value: Located | undefined, checker: Checker): void {
  const document = value && checker.map(value, '`document`')
  if (document === undefined) return
  checker.keys(document, '`document`', ['name', 'endpoint'])
  compileEndpoint(document, '`document`', checker)
}
