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
export function compileAuthentication(node: SourceNode, context: CompileContext): Authentication | undefined {
  const map = context.map(node, '`authentication`')
  const name = map && valueAt(map, 'use')
  if (map === undefined || name === undefined) return map && compilePolicy(map, context)
  context.keys(map, '`authentication`', ['use'])
  if (context.text(name, '`use`') === undefined) return undefined
  const compile = ({ value }: MapEntry) => compilePolicy(value, context)
  return context.components.resolve('authentications', name as ScalarNode, compile)
}

/** One scheme and its properties. */
export function compilePolicy(node: SourceNode, context: CompileContext): Authentication | undefined {
  const map = context.map(node, 'An authentication', SCHEMES, ['certificate'])
  if (map === undefined) return undefined
  if (entryOf(map, 'certificate') !== undefined) return undefined
  const scheme = context.exclusiveKey(map, 'An authentication', SCHEMES)
  if (SCHEMES.filter((one) => entryOf(map, one) !== undefined).length > 1) return undefined
  if (scheme === undefined) {
    const hint = `Write one of: ${SCHEMES.join(', ')}.`
    return context.report('missing_key', map, 'An authentication needs a scheme.', hint)
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
  if (scheme === 'oauth2' || scheme === 'oidc') checkOauth(map, scheme, context)
  else {
    const keys = CREDENTIALS[scheme]
    context.keys(map, `\`${scheme}\``, [...keys, 'use'])
    for (const key of keys) context.requiredText(map, `\`${scheme}\``, key)
  }
  const properties = context.fields(map, SCOPES.task)
  return properties && { scheme, properties }
}

/** The properties of schemes that need nothing but these strings. */
const CREDENTIALS = { basic: ['username', 'password'], bearer: ['token'], digest: ['username', 'password'] }

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
const ENDPOINTS = ['token', 'revocation', 'introspection']
const OAUTH_KEYS = ['authority', 'grant', 'client', 'request', ...LISTS, ...TEXTS, ...TOKENS]

/** With `oidc` the endpoints are discovered from the authority, so that `endpoints` is a key of `oauth2` alone. */
function checkOauth(map: MapNode, scheme: 'oauth2' | 'oidc', context: CompileContext): void {
  const what = `\`${scheme}\``
  context.keys(map, what, [...OAUTH_KEYS, ...(scheme === 'oauth2' ? ['endpoints'] : []), 'use'])
  checkAuthority(context.required(map, what, 'authority'), context)
  context.required(map, what, 'grant')
  const grant = context.wordOrExpression(map, 'grant', GRANTS)
  checkClient(map, context)
  const request = context.optionalMap(map, 'request', ['encoding'])
  if (request !== undefined) context.wordOrExpression(request, 'encoding', ENCODINGS)
  for (const key of LISTS) checkList(valueAt(map, key), key, context)
  for (const key of TEXTS) {
    if (grant === 'password') context.requiredText(map, what, key)
    else context.optionalText(map, key)
  }
  for (const key of TOKENS) checkToken(map, key, context)
  const endpoints = scheme === 'oauth2' ? context.optionalMap(map, 'endpoints', ENDPOINTS) : undefined
  if (endpoints !== undefined) for (const key of ENDPOINTS) context.optionalText(endpoints, key)
}

function checkAuthority(value: SourceNode | undefined, context: CompileContext): void {
  const text = value && context.text(value, '`authority`')
  if (value === undefined || text === undefined || text.includes('${') || /^https?:\/\/\S+$/i.test(text))
    return
  context.report('value_invalid', value, '`authority` must be an absolute http or https URI.')
}

function checkClient(parent: MapNode, context: CompileContext): void {
  const texts = ['id', 'secret', 'assertion']
  const client = context.optionalMap(parent, 'client', [...texts, 'authentication'])
  if (client === undefined) return
  for (const key of texts) context.optionalText(client, key)
  const method = context.wordOrExpression(client, 'authentication', CLIENT_AUTHENTICATIONS)
  if (method === 'private_key_jwt') context.required(client, '`client`', 'assertion')
  if (method !== 'none') context.required(client, '`client`', 'id')
}

function checkToken(parent: MapNode, key: string, context: CompileContext): void {
  const token = context.optionalMap(parent, key, ['token', 'type'])
  if (token === undefined) return
  context.requiredText(token, `\`${key}\``, 'token')
  context.requiredText(token, `\`${key}\``, 'type')
}

function checkList(list: SourceNode | undefined, what: string, context: CompileContext): void {
  if (list === undefined) return
  if (list.kind === 'list') for (const item of list.items) context.text(item, `An item of \`${what}\``)
  else context.report('wrong_type', list, `\`${what}\` must be a list of strings.`)
}
