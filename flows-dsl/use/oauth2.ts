/** Knows what `oauth2` and `oidc` must say (OWS 1.0 "OAUTH2 Authentication", "OpenIdConnect Authentication"). */

import type { Checker } from '../checker.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'

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
  if (endpoints !== undefined) checkTexts(endpoints, ['token', 'revocation', 'introspection'], checker)
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
  checkTexts(client, keys, checker, ['authentication'])
  const given = entryOf(client, 'authentication')?.value
  const method = checkWord(given, '`authentication`', CLIENT_AUTHENTICATIONS, checker)
  if (method === 'private_key_jwt') checker.required(client, '`client`', 'assertion')
  if (method !== 'none') checker.required(client, '`client`', 'id')
}

function checkToken(map: LocatedMap | undefined, what: string, checker: Checker): void {
  if (map === undefined) return
  checkTexts(map, ['token', 'type'], checker)
  checker.required(map, `\`${what}\``, 'token')
  checker.required(map, `\`${what}\``, 'type')
}

function checkTexts(
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
