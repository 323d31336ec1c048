/** Redacts secrets, recognised by member name or by form, from logs and stored values. */

import { LRUCache } from 'lru-cache'
import { CORE_LIMITS } from './limits.ts'

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
  max: CORE_LIMITS.secretNamesCachedMax,
  memoMethod: (name) => NAMES.has(name.toLowerCase().replaceAll(/[-_. ]/g, '')),
})

/** True if a member of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return name.length <= CORE_LIMITS.secretNameCharsMax && known.memo(name)
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

/** Of a private key, at most up to the next one. */
const KEY_BODY = '(?:(?!-----BEGIN )[^"])*?'

/**
 * Forms that nothing but a secret has: keys of the platform, of AWS, GitHub, Slack, Stripe and Google, and private keys, also
 * truncated. A private key needs content, since documentation mentions the header alone. No word boundary before them, since in
 * JSON an escape may precede.
 */
const FORMS = [
  'svc_(?:anon|service|storage)_[\\w-]{8,}',
  'whsec_[\\w+/=-]{8,}',
  '(?:AKIA|ASIA)[A-Z0-9]{16}',
  // Without its label, the secret key of AWS looks like many other texts.
  `${inAnyCase('secret')}[_ -]?(?:${inAnyCase('access')}[_ -]?)?${inAnyCase('key')}(?:[\\s"'\\\\:=>]|\\\\[nrt]){1,12}[\\w/+]{40,}`,
  'gh[pousr]_[A-Za-z0-9]{36,}',
  'github_pat_\\w{22,}',
  'xox[abeoprs]-(?=[A-Za-z-]{0,24}\\d)[A-Za-z0-9-]{10,}',
  '[rs]k_live_[A-Za-z0-9]{16,}',
  'AIza[\\w-]{35,}',
  [
    '-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:',
    `(?=[^"]{0,24}?[\\w+/=-]{10})${KEY_BODY}-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----`,
    `|(?=[^"]{0,80}?[\\w+/=]{24})${KEY_BODY}(?="|$|-----BEGIN ))`,
  ].join(''),
]

/**
 * Forms that prose or code can have as well: JSON Web Tokens, also truncated; credentials after an Authorization scheme;
 * parameters of signed URLs.
 */
const AMBIGUOUS_FORMS = [
  'eyJ[\\w-]{8,}(?:\\.[\\w-]*){0,4}',
  `(?:${['bearer', 'basic', 'apikey'].map(inAnyCase).join('|')})(?: +|%20|\\+)[\\w~+/.=-]{8,}`,
  `(?:${['apikey', 'x-amz-signature', 'x-amz-credential', 'x-amz-security-token', 'access_token', 'client_secret', 'password'].map(inAnyCase).join('|')})=[^&\\s"]+`,
]

const FORM = new RegExp(FORMS.join('|'), 'g')
const AMBIGUOUS_FORM = new RegExp(AMBIGUOUS_FORMS.join('|'), 'g')
const ANY_FORM = new RegExp([...FORMS, ...AMBIGUOUS_FORMS].join('|'), 'g')

/** Not the flag `i` for the whole pattern: ids in base 32 can contain `eyj`. */
function inAnyCase(word: string): string {
  return word.replaceAll(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`)
}

/** Redacts the secrets in a text, and what may be one. */
export function redactText(text: string): string {
  return text.replaceAll(ANY_FORM, REDACTED)
}

/** True if a text contains a secret, or what may be one. */
export function holdsSecret(text: string): boolean {
  return text.search(ANY_FORM) >= 0
}

/**
 * Redacts the secrets in a text whose readers need the rest of it. Unlike {@link redactText}, it leaves prose ("basic
 * information"), cursors that are JSON in base64, and placeholders.
 * @returns the text, and the number of secrets
 */
export function redactContent(text: string): { readonly text: string; readonly secrets: number } {
  let secrets = 0
  const mask = () => {
    secrets += 1
    return REDACTED
  }
  const masked = text
    .replaceAll(FORM, mask)
    .replaceAll(AMBIGUOUS_FORM, (found) => (isCredential(found) ? mask() : found))
  return { text: masked, secrets }
}

/** True if a match of an ambiguous form is a secret indeed. */
function isCredential(found: string): boolean {
  if (found.startsWith('eyJ')) return /\.[\w-]{4}/.test(found)
  const [, scheme = '', token = ''] = /^(basic|bearer|apikey)(?: +|%20|\+)(.*)$/i.exec(found) ?? []
  if (scheme.toLowerCase() === 'basic') return isBasicCredential(token)
  if (scheme !== '') return token.length >= 16 && /\d/.test(token)
  return !PLACEHOLDER.test(found.slice(found.indexOf('=') + 1))
}

/** Values of parameters that are no secrets: placeholders, variables, and flags such as `reset_password=true`. */
const PLACEHOLDER = /^(?:[<{[(*]|\$[A-Z{(]|%s|.*(?:…|\.\.\.)|(?:true|false|null|none|yes|no|\d)$)/

/** True for base64 (RFC 7617), which unlike a word mixes cases within and has a length divisible by 4. */
function isBasicCredential(token: string): boolean {
  const isBase64 = token.length >= 12 && token.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(token)
  return isBase64 && /[a-z]/.test(token) && /[A-Z]/.test(token) && /[\d=]|[a-z][A-Z].*[a-z][A-Z]/.test(token)
}

/** The parts of a JSON value that are redacted. */
interface Redaction {
  /** Redacts a text: a string, or the name of a member. */
  readonly text: (text: string) => string
  /** True if the whole member is a secret. By default none is. */
  readonly isSecret?: (name: string, member: unknown) => boolean
  /** Also redacts the digits of numbers; such a number becomes a text. */
  readonly numbers?: boolean
}

/** Copies a JSON value with its texts redacted, at any depth. The caller bounds the depth. */
export function redactValue(value: unknown, redaction: Redaction): unknown {
  const { text, isSecret, numbers = false } = redaction
  if (typeof value === 'string') return text(value)
  if (typeof value === 'number' && numbers) {
    const digits = text(String(value))
    return digits === String(value) ? value : digits
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => redactValue(one, redaction))
  const members = Object.entries(value).map(([name, member]) =>
    isSecret?.(name, member) ? [text(name), REDACTED] : [text(name), redactValue(member, redaction)],
  )
  return Object.fromEntries(members)
}

/** Copies a JSON value with secrets redacted, by member name and by form, in names as well. */
export const redact = (value: unknown): unknown =>
  redactValue(value, {
    text: redactText,
    isSecret: (name, member) => isSecretName(name) && member !== null,
  })

/**
 * Replaces the secrets in a result for readers who need the rest of it. Only their form counts, not the name of their member: a
 * document's own `password` is what its tenant put there.
 * @param json the value as JSON, if the caller has it
 * @returns the value itself if it has no secret, and how many secrets were masked
 */
export function maskSecrets(
  value: unknown,
  json: string = JSON.stringify(value) ?? '',
): { readonly value: unknown; readonly masked: number } {
  // Nearly all results have none, and searching a text is faster than walking a value.
  if (!holdsSecret(json)) return { value, masked: 0 }
  let masked = 0
  const maskText = (text: string): string => {
    const { text: shown, secrets } = redactContent(text)
    masked += secrets
    return shown
  }
  const isSecret = (name: string, member: unknown) => {
    const isKey = isAwsSecretKey(name, member)
    if (isKey) masked += 1
    return isKey
  }
  const copy = redactValue(JSON.parse(json), { text: maskText, isSecret })
  return masked === 0 ? { value, masked } : { value: copy, masked }
}

/** This form is a secret only with its label, which in JSON is the name of the member. */
const isAwsSecretKey = (name: string, member: unknown): boolean =>
  typeof member === 'string' &&
  /secret[_ -]?(?:access[_ -]?)?key$/i.test(name) &&
  /^[A-Za-z0-9/+]{40}$/.test(member)
