/** What is a secret, by its name or by its look, and what stands in its place wherever something is kept or logged. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from './limits.ts'

export const REDACTED = '[redacted]'

/** Names of members that hold secrets, in lower case and without what separates words. */
const NAMES = new Set([
  ...['authorization', 'proxyauthorization', 'apikey', 'xapikey', 'xgatewaysecret', 'cookie', 'setcookie'],
  ...['password', 'passwd', 'passphrase', 'secret', 'clientsecret', 'sharedsecret', 'signingsecret'],
  ...['token', 'accesstoken', 'refreshtoken', 'idtoken', 'bearertoken', 'apitoken', 'authtoken'],
  ...['privatekey', 'secretkey', 'secretaccesskey', 'servicekey', 'masterkey', 'credentials', 'credential'],
  ...['xamzsignature', 'xamzcredential', 'xamzsecuritytoken', 'ticket'],
])

/** Of names that came before: the same few come with every document. */
const known = new LRUCache<string, boolean>({
  max: LIMITS.secretNamesKnownMax,
  memoMethod: (name) => NAMES.has(name.toLowerCase().replaceAll(/[-_. ]/g, '')),
})

/** Whether what stands under this name is a secret, whatever it looks like. */
export function isSecretName(name: string): boolean {
  return name.length <= LIMITS.secretNameCharsMax && known.memo(name)
}

/** Whether a JSON value has a member with the name of a secret. The depth is the caller's to bound. */
export function namesSecret(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(namesSecret)
  for (const name of Object.keys(value)) {
    if (isSecretName(name) || namesSecret((value as Record<string, unknown>)[name])) return true
  }
  return false
}

/**
 * Values that are secrets wherever they stand: keys of ours, also cut ones; JSON Web Tokens and what is left of them;
 * private keys; what follows a scheme of Authorization; parameters of signed URLs. Nothing is asked of the letter before,
 * since in JSON that may be the end of an escape.
 */
const VALUES = new RegExp(
  [
    'svc_(?:anon|service)_[\\w-]{8,}',
    'whsec_[\\w+/=-]{8,}',
    'eyJ[\\w-]{8,}(?:\\.[\\w-]*){0,4}',
    '-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)',
    `(?:${['bearer', 'basic', 'apikey'].map(inAnyCase).join('|')})(?: +|%20|\\+)[\\w~+/.=-]{8,}`,
    `(?:${['apikey', 'x-amz-signature', 'x-amz-credential', 'x-amz-security-token', 'access_token', 'client_secret', 'password'].map(inAnyCase).join('|')})=[^&\\s"]+`,
  ].join('|'),
  'g',
)

/** Not of the whole pattern: ids in base 32 may well hold `eyj`. */
function inAnyCase(word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)
}

/** A text without the secrets that stand in it. */
export function redactText(text: string): string {
  return text.replaceAll(VALUES, REDACTED)
}

/** Whether a text has a secret in it. */
export function holdsSecret(text: string): boolean {
  return text.search(VALUES) >= 0
}

/**
 * A copy of a JSON value without secrets: what has the name of one, and what looks like one, in names as well. The depth
 * is the caller's to bound.
 */
export function redact(value: unknown): unknown {
  if (typeof value === 'string') return redactText(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(redact)
  const members = Object.entries(value).map(([name, member]) => [
    redactText(name),
    isSecretName(name) && member !== null ? REDACTED : redact(member),
  ])
  return Object.fromEntries(members)
}
