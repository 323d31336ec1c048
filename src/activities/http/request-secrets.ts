/** Replaces handles in the arguments of `call: http` and `call: openapi` by secrets, encoded for the part of the request. */

import { isHandle } from '../../core/secret-handle.ts'
import type { Json } from '../../core/work.ts'
import { type Fields, fieldsOf } from '../call-failure.ts'
import type { CallSecrets, Encoding } from '../flow/call-secrets.ts'
import { inForm, inJson } from '../secret-redactor.ts'
import type { CallClients } from './authentication.ts'
import { callHttp } from './http-call.ts'

type Arguments = { [name: string]: Json }

/** Replaces the handles in a request by values. @throws ApplicationFailure (configuration) if a secret does not exist any more */
function withSecrets(call: Arguments, secrecy: CallSecrets): Arguments {
  // The name of an object can be read by others: handles in it stay handles.
  const { endpoint, authentication, body, output, ...rest } = call
  return {
    ...secrecy.resolveHandles(rest),
    ...(output !== undefined && { output }),
    ...(endpoint !== undefined && { endpoint: resolveEndpoint(endpoint, secrecy) }),
    ...(authentication !== undefined && { authentication: resolveAuthentication(authentication, secrecy) }),
    ...(body !== undefined && { body: secrecy.resolveHandles(body, encodingFor(body, call)) }),
  }
}

/**
 * Resolves the handles of the document's address and authentication, which are used now. Parameters keep theirs, because the
 * request that is planned with them is recorded in the history of the workflow.
 */
export function withDocumentSecrets(call: Arguments, secrecy: CallSecrets): Arguments {
  const { document, ...rest } = call
  return { ...secrecy.allowHandles(rest), document: withSecrets(fieldsOf(document) as Arguments, secrecy) }
}

/** Sends `call: http`, with secrets if the flow declares any. */
export function sendHttp(
  call: Arguments,
  clients: CallClients,
  secrecy: CallSecrets | undefined,
): Promise<unknown> {
  if (secrecy === undefined) return callHttp(call, clients)
  return callHttp(withSecrets(call, secrecy), redactingTokens(clients, secrecy))
}

/** The same clients; tokens that issuers return are redacted from the output, and secrets from excerpts. */
export function redactingTokens(clients: CallClients, secrecy: CallSecrets): CallClients {
  return {
    ...clients,
    onToken: (token) => secrecy.addSecret(token),
    redactExcerpt: (text) => secrecy.redactExcerpt(text),
  }
}

/** A secret at the start of a URL may be a whole URL. Elsewhere it is percent-encoded, so it stays in its segment or parameter. */
function resolveEndpoint(endpoint: Json, secrecy: CallSecrets): Json {
  if (typeof endpoint !== 'string') return secrecy.resolveHandles(endpoint)
  return secrecy.resolveText(endpoint, (value, at) =>
    at === 0 ? redactUrlParts(value, secrecy) : encodeURIComponent(value),
  )
}

/** Redacts the parts of a secret URL, since failures and outputs contain some of them. @returns the URL */
function redactUrlParts(value: string, secrecy: CallSecrets): string {
  const { href, pathname, search } = URL.canParse(value) ? new URL(value) : EMPTY
  for (const part of [href, pathname + search, pathname, search.slice(1)]) secrecy.addSecret(part)
  return value
}

const EMPTY = { href: '', pathname: '', search: '' }

/** Resolves the properties of an authentication, or replaces a secret's name by its value, which holds all properties. */
function resolveAuthentication(authentication: Json, secrecy: CallSecrets): Json {
  const { secret, ...rest } = fieldsOf(authentication) as Arguments
  if (typeof secret !== 'string') return secrecy.resolveHandles(rest)
  return { ...rest, properties: secrecy.valueOf(secret) as Json }
}

/** A secret within a text body is encoded for the body's content type; one that is the whole body is not encoded. */
function encodingFor(body: Json, { headers }: Arguments): Encoding | undefined {
  if (typeof body !== 'string' || isHandle(body)) return undefined
  const type = typeOf(fieldsOf(headers))
  if (/^application\/x-www-form-urlencoded\b/i.test(type)) return inForm
  return /^[^;]*[/+]json\s*(;|$)/i.test(type) ? inJson : undefined
}

function typeOf(headers: Fields): string {
  const found = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')
  return String(found?.[1] ?? '')
}
