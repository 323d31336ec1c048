/** Redacts secrets, recognised by member name or by form, from logs and stored values. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from './limits.ts'

export const REDACTED = '[redacted]'

/** Names of members that hold secrets, in lower case and without word separators. */
const NAMES = new Set([
  ...['authorization', 'proxyauthorization', 'apikey', 'xapikey', 'xgatewaysecret', 'cookie', 'setcookie'],
  ...['password', 'passwd', 'passphrase', 'secret', 'clientsecret', 'sharedsecret', 'signingsecret'],
  ...['token', 'accesstoken', 'refreshtoken', 'idtoken', 'bearertoken', 'apitoken', 'authtoken'],
  ...['privatekey', 'secretkey', 'secretaccesskey', 'servicekey', 'masterkey', 'credentials', 'credential'],
  ...['xamzsignature', 'xamzcredential', 'xamzsecuritytoken', 'ticket'],
])

/** Caches names, since documents repeat the same few. */
const known = new LRUCache<string, boolean>({
  max: LIMITS.secretNamesKnownMax,
  memoMethod: (name) => NAMES.has(name.toLowerCase().replaceAll(/[-_. ]/g, '')),
})

/** True if a member of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return name.length <= LIMITS.secretNameCharsMax && known.memo(name)
}

/** True if a JSON value has a member with the name of a secret. The caller bounds the depth. */
export function namesSecret(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(namesSecret)
  for (const name of Object.keys(value)) {
    if (isSecretName(name) || namesSecret((value as Record<string, unknown>)[name])) return true
  }
  return false
}

/**
 * Values that are secrets anywhere: keys of the platform and JSON Web Tokens, also truncated; private keys; credentials after
 * an Authorization scheme; parameters of signed URLs. No word boundary before them, since in JSON an escape may precede.
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

/** Not the flag `i` for the whole pattern: ids in base 32 can contain `eyj`. */
function inAnyCase(word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)
}

/** Redacts the secrets in a text. */
export function redactText(text: string): string {
  return text.replaceAll(VALUES, REDACTED)
}

/** True if a text contains a secret. */
export function holdsSecret(text: string): boolean {
  return text.search(VALUES) >= 0
}

/**
 * Copies a JSON value with secrets redacted, by member name and by form, in names as well. The caller bounds the depth.
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
