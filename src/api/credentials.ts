/** Which credential of a request counts (interface.md §5): API key, then Bearer token. */

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from '../core/problem.ts'
import type { Credential } from '../platform/identity/auth.ts'

/**
 * Every credential that was presented, the one that counts first: the key, in whichever presentation it comes, then a
 * Bearer token. Identity headers (`x-tenant-id` and the like) are never read.
 * @throws Problem `credentials_missing`, `credentials_conflict`, `service_key_in_query`
 */
export function credentialsOf(
  headers: IncomingHttpHeaders,
  query: Readonly<Record<string, unknown>>,
  options: { readonly keyInQuery?: boolean } = {},
): Credential[] {
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
  const token = scheme === 'bearer' && !bearerKey
  if (headers.authorization !== undefined && scheme !== 'bearer' && scheme !== 'apikey') {
    throw new Problem('token_invalid', { detail: 'Authorization takes the schemes Bearer and ApiKey.' })
  }
  if (first === undefined && !token) throw new Problem('credentials_missing')
  return [
    ...(first === undefined ? [] : [{ kind: 'api_key', text: String(first) } as const]),
    ...(token ? [{ kind: 'token', text: value } as const] : []),
  ]
}

function authorization(header: string | undefined): { scheme: string; value: string } {
  const space = header?.indexOf(' ') ?? -1
  if (header === undefined || space < 0) return { scheme: '', value: '' }
  return { scheme: header.slice(0, space).toLowerCase(), value: header.slice(space + 1).trim() }
}
