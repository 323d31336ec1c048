/** Compiles authentication policies, inline or by name (OWS 1.0 "Authentication"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import {
  entryOf,
  type MapEntry,
  type MapNode,
  type ScalarNode,
  type SourceNode,
  valueAt,
} from '../compile/source-nodes.ts'
import type { Template } from '../ir.ts'

const SCHEMES = ['basic', 'bearer', 'digest', 'oauth2', 'oidc'] as const

/** The authentication of a call. The OWS properties of the scheme are either here or in the named secret. */
export interface Authentication {
  readonly scheme: (typeof SCHEMES)[number]
  readonly secret?: string
  readonly properties?: Template
}

/** The key `authentication` of an endpoint: `{use: name}`, or a policy. */
export function compileAuthentication(
  given: SourceNode,
  context: CompileContext,
): Authentication | undefined {
  const map = context.map(given, '`authentication`')
  const name = map && valueAt(map, 'use')
  if (map === undefined || name === undefined) return map && compilePolicy(map, context)
  context.keys(map, '`authentication`', ['use'])
  if (context.text(name, '`use`') === undefined) return undefined
  const compile = ({ value }: MapEntry) => compilePolicy(value, context)
  return context.components.resolve('authentications', name as ScalarNode, compile)
}

/** One scheme and its properties. */
export function compilePolicy(given: SourceNode, context: CompileContext): Authentication | undefined {
  const map = context.map(given, 'An authentication')
  if (map === undefined) return undefined
  context.keys(map, 'an authentication', SCHEMES, ['certificate'])
  if (entryOf(map, 'certificate') !== undefined) return undefined
  const scheme = context.exclusiveKey(map, 'An authentication', SCHEMES)
  if (SCHEMES.filter((one) => entryOf(map, one) !== undefined).length > 1) return undefined
  if (scheme === undefined) {
    const hint = `Write one of: ${SCHEMES.join(', ')}.`
    return context.report('missing_key', map, 'An authentication must say how.', hint)
  }
  const properties = context.optionalMap(map, scheme)
  return properties && compileScheme(scheme, properties, context)
}

function compileScheme(
  scheme: Authentication['scheme'],
  map: MapNode,
  context: CompileContext,
): Authentication | undefined {
  const name = valueAt(map, 'use')
  if (name !== undefined) {
    context.keys(map, `\`${scheme}\` of a secret`, ['use'])
    const text = context.text(name, '`use`')
    return text !== undefined && context.secret(text, name) ? { scheme, secret: text } : undefined
  }
  CHECKS[scheme](map, context)
  const properties = context.fields(map, SCOPES.task)
  return properties && { scheme, properties }
}

const CHECKS: Readonly<Record<Authentication['scheme'], (map: MapNode, context: CompileContext) => void>> = {
  basic: (map, context) => checkTexts(map, '`basic`', ['username', 'password'], context),
  bearer: (map, context) => checkTexts(map, '`bearer`', ['token'], context),
  digest: (map, context) => checkTexts(map, '`digest`', ['username', 'password'], context),
  oauth2: checkOauth2,
  oidc: checkOidc,
}

/** All keys are required strings, and no others are allowed. */
function checkTexts(map: MapNode, what: string, keys: readonly string[], context: CompileContext): void {
  context.keys(map, what, [...keys, 'use'])
  for (const key of keys) {
    const value = context.required(map, what, key)
    if (value !== undefined) context.text(value, `\`${key}\``)
  }
}

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const GRANTS = [
  'client_credentials',
  'authorization_code',
  'password',
  'refresh_token',
  TOKEN_EXCHANGE,
]
export const CLIENT_AUTHENTICATIONS = [
  'client_secret_post',
  'client_secret_basic',
  'client_secret_jwt',
  'private_key_jwt',
  'none',
]
export const ENCODINGS = ['application/x-www-form-urlencoded', 'application/json']
const LISTS = ['issuers', 'scopes', 'audiences']
const TEXTS = ['username', 'password']
const TOKENS = ['subject', 'actor']
const OAUTH2_KEYS = ['authority', 'grant', 'client', 'request', ...LISTS, ...TEXTS, ...TOKENS]

function checkOauth2(map: MapNode, context: CompileContext): void {
  checkBoth(map, '`oauth2`', [...OAUTH2_KEYS, 'endpoints'], context)
  const endpoints = context.optionalMap(map, 'endpoints')
  if (endpoints !== undefined)
    checkOptionalTexts(endpoints, ['token', 'revocation', 'introspection'], context)
}

/** The endpoints are discovered from the authority. */
function checkOidc(map: MapNode, context: CompileContext): void {
  checkBoth(map, '`oidc`', OAUTH2_KEYS, context)
}

function checkBoth(map: MapNode, what: string, keys: readonly string[], context: CompileContext): void {
  context.keys(map, what, [...keys, 'use'])
  checkAuthority(context.required(map, what, 'authority'), context)
  const grant = checkWord(context.required(map, what, 'grant'), '`grant`', GRANTS, context)
  checkClient(context.optionalMap(map, 'client'), context)
  const request = context.optionalMap(map, 'request')
  if (request !== undefined) {
    context.keys(request, '`request`', ['encoding'])
    checkWord(valueAt(request, 'encoding'), '`encoding`', ENCODINGS, context)
  }
  for (const key of LISTS) checkList(valueAt(map, key), key, context)
  for (const key of TEXTS) {
    const text = grant === 'password' ? context.required(map, what, key) : valueAt(map, key)
    if (text !== undefined) context.text(text, `\`${key}\``)
  }
  for (const key of TOKENS) checkToken(map, key, context)
}

function checkAuthority(value: SourceNode | undefined, context: CompileContext): void {
  const text = value && context.text(value, '`authority`')
  if (value === undefined || text === undefined || text.includes('${') || /^https?:\/\/\S+$/i.test(text))
    return
  context.report('value_invalid', value, '`authority` must be an absolute http or https URI.')
}

function checkClient(client: MapNode | undefined, context: CompileContext): void {
  if (client === undefined) return
  const keys = ['id', 'secret', 'assertion']
  checkOptionalTexts(client, keys, context, ['authentication'])
  const given = valueAt(client, 'authentication')
  const method = checkWord(given, '`authentication`', CLIENT_AUTHENTICATIONS, context)
  if (method === 'private_key_jwt') context.required(client, '`client`', 'assertion')
  if (method !== 'none') context.required(client, '`client`', 'id')
}

function checkToken(parent: MapNode, key: string, context: CompileContext): void {
  const map = context.optionalMap(parent, key)
  if (map === undefined) return
  checkOptionalTexts(map, ['token', 'type'], context)
  context.required(map, `\`${key}\``, 'token')
  context.required(map, `\`${key}\``, 'type')
}

function checkOptionalTexts(
  map: MapNode,
  keys: readonly string[],
  context: CompileContext,
  others: readonly string[] = [],
): void {
  context.keys(map, 'it', [...keys, ...others])
  for (const key of keys) {
    const value = valueAt(map, key)
    if (value !== undefined) context.text(value, `\`${key}\``)
  }
}

function checkList(list: SourceNode | undefined, what: string, context: CompileContext): void {
  if (list === undefined) return
  if (list.kind === 'list') for (const item of list.items) context.text(item, `An item of \`${what}\``)
  else context.report('wrong_type', list, `\`${what}\` must be a list of strings.`)
}

/** One of several words, or an expression. @returns the text */
function checkWord(
  value: SourceNode | undefined,
  what: string,
  words: readonly string[],
  context: CompileContext,
): string | undefined {
  const text = value && context.text(value, what)
  if (value === undefined || text === undefined || text.includes('${') || words.includes(text)) return text
  return context.reportUnknown('value_invalid', value, `${what} cannot be \`${text}\`.`, text, words)
}
