/** What a request presents as credentials, and which of it counts: API key, Bearer token, gateway (interface.md §5). */

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from '../../core/problem.ts'
import type { GatewayIdentity } from './gateway.ts'

/** One thing that was presented. */
export type Credential =
  | { readonly kind: 'api_key'; readonly text: string }
  | { readonly kind: 'token'; readonly text: string }
  | { readonly kind: 'gateway'; readonly identity: GatewayIdentity }

/** Where credentials may stand in a request. */
export interface Presentation {
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as they came: of two Authorization headers, Node keeps one without a word. */
  readonly rawHeaders: readonly string[]
  readonly query: Readonly<Record<string, unknown>>
  /** Set where the gateway's secret came with it. */
  readonly gateway?: GatewayIdentity | undefined
  /** What the Temporal UI has of its reader, where it asks for payloads. */
  readonly pageToken?: string | undefined
}

/**
 * Every credential that was presented, the one that counts first: the key, in whichever presentation it comes, then a
 * Bearer token; the token of a page, and who the gateway says it is, only where neither is there. Nothing is verified yet. An empty header is a
 * credential that is not good, rather than none.
 * @returns none where none was presented
 * @throws Problem `service_key_in_query`, `credentials_conflict`, `token_invalid`
 */
export function credentialsOf(
  { headers, rawHeaders, query, gateway, pageToken }: Presentation,
  options: { readonly keyInQuery?: boolean } = {},
): Credential[] {
  const inQuery = keyInUrl(query['apikey'], options.keyInQuery)
  if (times('authorization', rawHeaders) > 1) throw new Problem('credentials_conflict')
  const { scheme, value } = authorization(headers.authorization)
  const bearerKey = scheme === 'bearer' && value.startsWith('svc_')
  const keys = [
    headers['apikey'],
    headers['x-api-key'],
    scheme === 'apikey' || bearerKey ? value : undefined,
    inQuery,
  ].filter((key) => key !== undefined)
  const token = scheme === 'bearer' && !bearerKey ? value : undefined
  const [first] = keys
  // No credential holds a comma: what has one was sent twice, and joined by Node or on the way (RFC 9110 §5.2).
  if (keys.some((key) => key !== first || key.includes(',')) || token?.includes(','))
    throw new Problem('credentials_conflict')
  const found: Credential[] = []
  if (first !== undefined) found.push({ kind: 'api_key', text: String(first) })
  if (token !== undefined) found.push({ kind: 'token', text: token })
  if (found.length === 0 && pageToken !== undefined) found.push({ kind: 'token', text: pageToken })
  if (found.length === 0 && gateway !== undefined) found.push({ kind: 'gateway', identity: gateway })
  return found
}

/** @throws Problem where a key may not stand in the URL, or more than one does */
function keyInUrl(value: unknown, allowed = false): string | undefined {
  if (value === undefined) return undefined
  const keys = [value].flat()
  if (!allowed || !keys.every((key) => typeof key === 'string' && key.startsWith('svc_anon_')))
    throw new Problem('service_key_in_query')
  if (keys.length > 1) throw new Problem('credentials_conflict')
  return String(keys[0])
}

/** How often a header was sent. */
function times(name: string, rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at]
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1
  }
  return count
}

/** @throws Problem `token_invalid` for a scheme that is none of ours, or one without a value */
function authorization(header: string | undefined): { scheme?: 'bearer' | 'apikey'; value: string } {
  if (header === undefined) return { value: '' }
  const [, scheme = '', value = ''] = /^(\S+) +(\S.*)$/.exec(header) ?? []
  const known = scheme.toLowerCase()
  if (known === 'bearer' || known === 'apikey') return { scheme: known, value: value.trim() }
  throw new Problem('token_invalid', { detail: 'Authorization takes the schemes Bearer and ApiKey.' })
}
