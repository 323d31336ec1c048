/** Knows how the arguments of `call: openapi` become an HTTP request (OWS 1.0 "OpenAPI Call"). */

import { nearest } from '../../flows-dsl/faults.ts'
import { callFailure } from './call-failure.ts'
import type { Fields } from './http-auth-fields.ts'
import { written } from './openapi-body.ts'
import type { Operation, Parameter } from './openapi-operation.ts'
import { headerOf, queryPairs, segmentOf } from './openapi-styles.ts'

/** The arguments of `call: http` that say the same; nothing of the authentication is in them. */
export interface HttpRequest {
  readonly method: string
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/**
 * @param given the parameters by name; null is one that is not given
 * @throws ApplicationFailure (validation) for parameters that are missing, unknown, or cannot be sent
 */
export function requestOf(operation: Operation, given: Fields): HttpRequest {
  const values = new Map(Object.entries(given).filter(([, value]) => value !== null && value !== undefined))
  const { parameters, method } = operation
  checkThere(operation, values)
  const body = bodyValue(operation, values)
  const of = (place: Parameter['place']) =>
    parameters
      .filter((one) => one.place === place && values.has(one.name))
      .map((one) => [one, sentOf(one, values.get(one.name))] as const)
  const url = new URL(operation.server)
  url.pathname = url.pathname.replace(/\/$/, '') + pathOf(operation, of('path'))
  url.search = of('query')
    .flatMap(([one, value]) => queryPairs(one, value))
    .map((pair) => pair.join('='))
    .join('&')
  url.hash = ''
  const headers = Object.fromEntries([
    ...of('header').map(([one, value]) => [one.name.toLowerCase(), headerText(one, headerOf(one, value))]),
    ...cookiesOf(of('cookie')),
    ...(body === undefined ? [] : [['content-type', operation.body?.media ?? '']]),
  ])
  return { method, endpoint: url.href, headers, ...(body !== undefined && { body }) }
}

type Given = readonly (readonly [Parameter, unknown])[]

function sentOf({ json }: Parameter, value: unknown): unknown {
  return json ? JSON.stringify(value) : value
}

/** Each fault by the name of its parameter. */
function checkThere({ parameters, body }: Operation, values: ReadonlyMap<string, unknown>): void {
  const missing = parameters
    .filter(({ name, required }) => required && !values.has(name))
    .map(({ name }) => name)
  if (body !== undefined && !values.has(body.name))
    missing.push(...body.needed.filter((name) => !values.has(name)))
  if (missing.length > 0) {
    const list = missing.map((name) => `\`${name}\``).join(', ')
    throw callFailure('validation', `The operation needs parameters that are not given: ${list}.`)
  }
  const known = [
    ...parameters.map(({ name }) => name),
    ...(body === undefined ? [] : [body.name, ...(body.fields ?? [])]),
  ]
  if (body !== undefined && body.fields === undefined) return
  const names = new Set(known)
  for (const name of values.keys()) {
    if (names.has(name) || (body !== undefined && name === 'body')) continue
    const near = nearest(name, known)
    const hint = near === undefined ? '' : ` Did you mean \`${near}\`?`
    throw callFailure('validation', `The operation has no parameter \`${name.slice(0, 200)}\`.${hint}`)
  }
}

/** The parameter that is the body, or all that are none of the others, as its properties. */
function bodyValue(
  { parameters, body }: Operation,
  values: ReadonlyMap<string, unknown>,
): string | undefined {
  if (body === undefined) return undefined
  const taken = new Set(parameters.map(({ name }) => name))
  const others = [...values].filter(([name]) => !taken.has(name))
  const [whole] = others.filter(([name]) => name === body.name || name === 'body')
  if (whole !== undefined && others.length > 1) {
    const detail = `Beside \`${whole[0]}\`, which is the whole body, nothing else can be in it.`
    throw callFailure('validation', detail)
  }
  if (whole !== undefined) return written(body, whole[1])
  if (others.length > 0) return written(body, Object.fromEntries(others))
  if (body.required)
    throw callFailure('validation', `The operation needs a body: the parameter \`${body.name}\`.`)
  return undefined
}

/** A value stays within its segment, and no segment becomes one that leads elsewhere. */
function pathOf({ path }: Operation, given: Given): string {
  const byName = new Map(given.map((one) => [one[0].name, one]))
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (_whole, name: string) => {
    const [one, value] = byName.get(name) ?? []
    if (one === undefined)
      throw callFailure('configuration', `The path needs \`${name}\`, which is no parameter.`)
    const text = segmentOf(one, value)
    if (text === '')
      throw callFailure('validation', `The parameter \`${name}\` of the path must not be empty.`)
    return text
  })
  if (!filled.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return filled
  throw callFailure('validation', 'A parameter of the path must not be `.` or `..`.')
}

function headerText({ name }: Parameter, text: string): string {
  if (/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) return text
  throw callFailure('validation', `The parameter \`${name}\` has characters that no header has.`)
}

function cookiesOf(given: Given): readonly (readonly [string, string])[] {
  const pairs = given.flatMap(([one, value]) => queryPairs(one, value))
  const text = pairs.map((pair) => pair.join('=')).join('; ')
  return text === '' ? [] : [['cookie', text]]
}
