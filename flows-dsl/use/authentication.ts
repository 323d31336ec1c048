/** Knows how a call says who it is (OWS 1.0 "Authentication"): a policy, by itself or by its name. */

import { type Checker, SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type LocatedScalar } from '../located.ts'
import { checkOauth2, checkOidc } from './oauth2.ts'

const SCHEMES = ['basic', 'bearer', 'digest', 'oauth2', 'oidc'] as const

/**
 * What authenticates a call. The properties are those of the scheme in OWS, and they are in the secret of that name
 * where one is given.
 */
export interface Authentication {
  readonly scheme: (typeof SCHEMES)[number]
  readonly secret?: string
  readonly properties?: Template
}

/** The key `authentication` of an endpoint: `{use: name}`, or a policy. */
export function compileAuthentication(given: Located, checker: Checker): Authentication | undefined {
  const map = checker.map(given, '`authentication`')
  const name = map && entryOf(map, 'use')?.value
  if (map === undefined || name === undefined) return map && compilePolicy(map, checker)
  checker.keys(map, '`authentication`', ['use'])
  if (checker.text(name, '`use`') === undefined) return undefined
  const compile = ({ value }: LocatedEntry) => compilePolicy(value, checker)
  return checker.declared.find('authentications', name as LocatedScalar, compile)
}

/** One scheme and its properties. */
export function compilePolicy(given: Located, checker: Checker): Authentication | undefined {
  const map = checker.map(given, 'An authentication')
  if (map === undefined) return undefined
  checker.keys(map, 'an authentication', SCHEMES, ['certificate'])
  if (entryOf(map, 'certificate') !== undefined) return undefined
  const [scheme, other] = SCHEMES.filter((one) => entryOf(map, one) !== undefined)
  if (scheme === undefined) {
    const hint = `Write one of: ${SCHEMES.join(', ')}.`
    return checker.fault('missing_key', map, 'An authentication must say how.', hint)
  }
  if (other !== undefined) {
    const message = `An authentication is \`${scheme}\` and \`${other}\` at once.`
    return checker.fault('value_invalid', entryOf(map, other)?.at ?? map, message)
  }
  const value = entryOf(map, scheme)?.value
  const properties = value && checker.map(value, `\`${scheme}\``)
  return properties && compileScheme(scheme, properties, checker)
}

function compileScheme(
  scheme: Authentication['scheme'],
  map: LocatedMap,
  checker: Checker,
): Authentication | undefined {
  const name = entryOf(map, 'use')?.value
  if (name !== undefined) {
    checker.keys(map, `\`${scheme}\` of a secret`, ['use'])
    const text = checker.text(name, '`use`')
    return text !== undefined && checker.secret(text, name) ? { scheme, secret: text } : undefined
  }
  CHECKS[scheme](map, checker)
  const properties = checker.fields(map, SCOPES.task)
  return properties && { scheme, properties }
}

const CHECKS: Readonly<Record<Authentication['scheme'], (map: LocatedMap, checker: Checker) => void>> = {
  basic: (map, checker) => checkTexts(map, '`basic`', ['username', 'password'], checker),
  bearer: (map, checker) => checkTexts(map, '`bearer`', ['token'], checker),
  digest: (map, checker) => checkTexts(map, '`digest`', ['username', 'password'], checker),
  oauth2: checkOauth2,
  oidc: checkOidc,
}

/** Each key must be there and be a text, and there are no others. */
function checkTexts(map: LocatedMap, what: string, keys: readonly string[], checker: Checker): void {
  checker.keys(map, what, [...keys, 'use'])
  for (const key of keys) {
    const value = checker.required(map, what, key)
    if (value !== undefined) checker.text(value, `\`${key}\``)
  }
}
