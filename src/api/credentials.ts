/** Which credential of a request counts (interface.md §5): API key, then Bearer token. */

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from '../core/problem.ts'
import type { Credential } from '../platform/auth.ts'

/**
 * The key, in whichever presentation it comes, else a Bearer token. Identity headers (`x-tenant-id` and the like)
 * are never read.
 * @throws Problem `credentials_missing`, `credentials_conflict`, `service_key_in_query`
 */
export function credentialOf(
  headers: IncomingHttpHeaders,
  query: Readonly<Record<string, unknown>>,
  options: { readonly keyInQuery?: boolean } = {},
): Credential {
  const inQuery = query['apikey']
  const allowed = options.keyInQuery && typeof inQuery === 'string' && inQuery.startsWith('svc_anon_')
  if (inQuery !== undefined && !allowed) throw new Problem('service_key_in_query')
  const { scheme, value } = authorization(headers.authorization)
  const bearerKey = scheme === 'bearer' && value.startsWith('svc_')
  const keys = [
    headers['apikey'],
    headers['x-api-key'],
    ...(scheme === 'apikey' || bearerKey ? [value] : []),
    inQuery,
  ].filter((key) => key !== undefined)
  const [first] = keys
  if (keys.some((key) => key !== first)) throw new Problem('credentials_conflict')
  if (first !== undefined) return { kind: 'api_key', text: String(first) }
  if (scheme === 'bearer') return { kind: 'token', text: value }
  if (headers.authorization !== undefined) {
    throw new Problem('token_invalid', { detail: 'Authorization takes the schemes Bearer and ApiKey.' })
  }
  throw new Problem('credentials_missing')
}

function authorization(header: string | undefined): { scheme: string; value: string } {
  const space = header?.indexOf(' ') ?? -1
  if (header === undefined || space < 0) return { scheme: '', value: '' }
  return { scheme: header.slice(0, space).toLowerCase(), value: header.slice(space + 1).trim() }
}
