/** Finds the handles of secrets in the arguments of `call: http` and `call: openapi`, and encodes values for each place. */

import { isHandle } from '../../core/secret-handle.ts'
import type { Json } from '../../core/work.ts'
import { type Fields, fieldsOf } from '../call-failure.ts'
import type { CallSecrets, Encoding } from '../flow/secret-redactor.ts'
import { inForm, inJson } from '../flow/secret-redactor.ts'
import type { CallClients } from './authentication.ts'
import { callHttp } from './http-call.ts'

type Arguments = { [name: string]: Json }

/** The request with its secrets in it. @throws ApplicationFailure (configuration) where one is not there any more */
function withSecrets(call: Arguments, secrecy: CallSecrets): Arguments {
  const { endpoint, authentication, body, ...rest } = call
  return {
    ...secrecy.resolveHandles(rest),
    ...(endpoint !== undefined && { endpoint: resolveEndpoint(endpoint, secrecy) }),
    ...(authentication !== undefined && { authentication: resolveAuthentication(authentication, secrecy) }),
    ...(body !== undefined && { body: secrecy.resolveHandles(body, spellingIn(body, call)) }),
  }
}

/**
 * The document, which is read now, with its secrets; the parameters keep their handles, since the request that is made
 * of them goes through the history of the run.
 */
export function withDocumentSecrets(call: Arguments, secrecy: CallSecrets): Arguments {
  const { document, ...rest } = call
  return { ...secrecy.allowHandles(rest), document: withSecrets(fieldsOf(document) as Arguments, secrecy) }
}

/** `call: http` with its secrets, where the run has any. */
export function sendHttp(
  call: Arguments,
  way: CallClients,
  secrecy: CallSecrets | undefined,
): Promise<unknown> {
  if (secrecy === undefined) return callHttp(call, way)
  return callHttp(withSecrets(call, secrecy), redactingTokens(way, secrecy))
}

/** The same way; tokens that issuers give on it are shown to nobody. */
export function redactingTokens(way: CallClients, secrecy: CallSecrets): CallClients {
  return { ...way, onToken: (token) => secrecy.addSecret(token) }
}

/** An address may begin with a secret that is one; further on, a secret stays within its segment or parameter. */
function resolveEndpoint(endpoint: Json, secrecy: CallSecrets): Json {
  if (typeof endpoint !== 'string') return secrecy.resolveHandles(endpoint)
  return secrecy.text(endpoint, (value, at) =>
    at === 0 ? address(value, secrecy) : encodeURIComponent(value),
  )
}

/** Failures and answers tell parts of an address. */
function address(value: string, secrecy: CallSecrets): string {
  const { href, pathname, search } = URL.canParse(value) ? new URL(value) : EMPTY
  for (const part of [href, pathname + search, pathname, search.slice(1)]) secrecy.addSecret(part)
  return value
}

const EMPTY = { href: '', pathname: '', search: '' }

/** Properties with their secrets, or the secret that has them all. */
function resolveAuthentication(authentication: Json, secrecy: CallSecrets): Json {
  const { secret, ...rest } = fieldsOf(authentication) as Arguments
  if (typeof secret !== 'string') return secrecy.resolveHandles(rest)
  return { ...rest, properties: secrecy.valueOf(secret) as Json }
}

/** Of a body that is a text, a part that is a secret takes the form of its type; all of it is what it is. */
function spellingIn(body: Json, { headers }: Arguments): Encoding | undefined {
  if (typeof body !== 'string' || isHandle(body)) return undefined
  const type = typeOf(fieldsOf(headers))
  if (/^application\/x-www-form-urlencoded\b/i.test(type)) return inForm
  return /^[^;]*[/+]json\s*(;|$)/i.test(type) ? inJson : undefined
}

function typeOf(headers: Fields): string {
  const found = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')
  return String(found?.[1] ?? '')
}
