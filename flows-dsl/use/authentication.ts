/** Compiles authentication policies, inline or by name (OWS 1.0 "Authentication"). */

import { type Checker, SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { entryOf, type Located, type LocatedEntry, type LocatedMap, type LocatedScalar } from '../located.ts'

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

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const GRANTS = ['authorization_code', 'client_credentials', 'password', 'refresh_token', TOKEN_EXCHANGE]
const CLIENT_AUTHENTICATIONS = [
  'client_secret_basic',
  'client_secret_post',
  'client_secret_jwt',
  'private_key_jwt',
  'none',
]
const ENCODINGS = ['application/x-www-form-urlencoded', 'application/json']
const LISTS = ['issuers', 'scopes', 'audiences']
const TEXTS = ['username', 'password']
const TOKENS = ['subject', 'actor']
const KEYS = ['authority', 'grant', 'client', 'request', ...LISTS, ...TEXTS, ...TOKENS]

export function checkOauth2(map: LocatedMap, checker: Checker): void {
  checkBoth(map, '`oauth2`', [...KEYS, 'endpoints'], checker)
  const endpoints = below(map, 'endpoints', checker)
  if (endpoints !== undefined)
    checkOptionalTexts(endpoints, ['token', 'revocation', 'introspection'], checker)
}

/** Its endpoints are found by the authority. */
export function checkOidc(map: LocatedMap, checker: Checker): void {
  checkBoth(map, '`oidc`', KEYS, checker)
}

function checkBoth(map: LocatedMap, what: string, keys: readonly string[], checker: Checker): void {
  checker.keys(map, what, [...keys, 'use'])
  checkAuthority(checker.required(map, what, 'authority'), checker)
  const grant = checkWord(checker.required(map, what, 'grant'), '`grant`', GRANTS, checker)
  checkClient(below(map, 'client', checker), checker)
  const request = below(map, 'request', checker)
  if (request !== undefined) {
    checker.keys(request, '`request`', ['encoding'])
    checkWord(entryOf(request, 'encoding')?.value, '`encoding`', ENCODINGS, checker)
  }
  for (const key of LISTS) checkList(entryOf(map, key)?.value, key, checker)
  for (const key of TEXTS) {
    const text = grant === 'password' ? checker.required(map, what, key) : entryOf(map, key)?.value
    if (text !== undefined) checker.text(text, `\`${key}\``)
  }
  for (const key of TOKENS) checkToken(below(map, key, checker), key, checker)
}

function checkAuthority(value: Located | undefined, checker: Checker): void {
  const text = value && checker.text(value, '`authority`')
  if (value === undefined || text === undefined || text.includes('${') || /^https?:\/\/\S+$/i.test(text))
    return
  checker.fault('value_invalid', value, '`authority` must be an absolute http or https URI.')
}

function checkClient(client: LocatedMap | undefined, checker: Checker): void {
  if (client === undefined) return
  const keys = ['id', 'secret', 'assertion']
  checkOptionalTexts(client, keys, checker, ['authentication'])
  const given = entryOf(client, 'authentication')?.value
  const method = checkWord(given, '`authentication`', CLIENT_AUTHENTICATIONS, checker)
  if (method === 'private_key_jwt') checker.required(client, '`client`', 'assertion')
  if (method !== 'none') checker.required(client, '`client`', 'id')
}

function checkToken(map: LocatedMap | undefined, what: string, checker: Checker): void {
  if (map === undefined) return
  checkOptionalTexts(map, ['token', 'type'], checker)
  checker.required(map, `\`${what}\``, 'token')
  checker.required(map, `\`${what}\``, 'type')
}

function checkOptionalTexts(
  map: LocatedMap,
  keys: readonly string[],
  checker: Checker,
  others: readonly string[] = [],
): void {
  checker.keys(map, 'it', [...keys, ...others])
  for (const key of keys) {
    const value = entryOf(map, key)?.value
    if (value !== undefined) checker.text(value, `\`${key}\``)
  }
}

function checkList(list: Located | undefined, what: string, checker: Checker): void {
  if (list === undefined) return
  if (list.kind === 'list') for (const item of list.items) checker.text(item, `An item of \`${what}\``)
  else checker.fault('wrong_type', list, `\`${what}\` must be a list of strings.`)
}

function below(map: LocatedMap, key: string, checker: Checker): LocatedMap | undefined {
  const value = entryOf(map, key)?.value
  return value && checker.map(value, `\`${key}\``)
}

/** One of several words, or an expression that yields one. Answers the word. */
function checkWord(
  value: Located | undefined,
  what: string,
  words: readonly string[],
  checker: Checker,
): string | undefined {
  const text = value && checker.text(value, what)
  if (value === undefined || text === undefined || text.includes('${') || words.includes(text)) return text
  return checker.unknown('value_invalid', value, `${what} cannot be \`${text}\`.`, text, words)
}
