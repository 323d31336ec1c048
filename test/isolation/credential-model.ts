/** A simple model of the rules for credentials (docs/identity.md), independent of the product code. */

export const ROUTES = ['data', 'admin', 'me', 'events', 'mcp'] as const
export type Route = (typeof ROUTES)[number]

/** Headers and parameters that carry a credential, and the credentials that each can carry. */
const CARRIERS = {
  apikey: ['ours', 'ours-anon', 'theirs', 'nobody'],
  'x-api-key': ['ours', 'ours-anon', 'theirs', 'nobody'],
  'Authorization: ApiKey': ['ours', 'ours-anon', 'theirs', 'nobody'],
  'Authorization: Bearer svc_': ['ours', 'ours-anon', 'theirs', 'nobody'],
  '?apikey=': ['ours', 'ours-anon', 'theirs-anon', 'nobody-anon'],
  'Authorization: Bearer JWT': ['ours', 'ours-user', 'theirs', 'nobody'],
  // Gateway headers count only with the secret; without it they are ignored.
  gateway: ['ours', 'theirs', 'nobody', 'ours, no secret', 'ours, wrong secret'],
} as const
export type Carrier = keyof typeof CARRIERS

export interface Presentation {
  readonly carrier: Carrier
  readonly credential: string
}

const KEY_CARRIERS: readonly Carrier[] = [
  'apikey',
  'x-api-key',
  'Authorization: ApiKey',
  'Authorization: Bearer svc_',
]

/** `ours` or `theirs` if the caller is accepted as that tenant, else the problem code. */
export function expected(route: Route, sent: readonly Presentation[]): string {
  const at = (carrier: Carrier) => sent.find((one) => one.carrier === carrier)?.credential
  const inUrl = at('?apikey=')
  // "only on GET /v1/events/subscribe, and only svc_anon_"
  if (inUrl !== undefined && !inUrl.endsWith('-anon')) return 'service_key_in_query'
  if (inUrl !== undefined && route !== 'events') return 'anon_key_in_query'
  // The Authorization header cannot be sent twice.
  if (sent.filter(({ carrier }) => carrier.startsWith('Authorization')).length > 1)
    return 'credentials_conflict'
  const keys = new Set(
    sent.filter(({ carrier }) => KEY_CARRIERS.includes(carrier)).map(({ credential }) => credential),
  )
  if (inUrl !== undefined) keys.add(inUrl)
  // "Two different keys in one request: 400"
  if (keys.size > 1) return 'credentials_conflict'
  const [key] = keys
  const token = at('Authorization: Bearer JWT')
  // "the MCP wire endpoint takes only OAuth access tokens whose audience is that server"
  if (route === 'mcp') return wire(key, token)
  // "A presented but invalid credential is 401, whatever else is sent"
  if (key?.startsWith('nobody')) return 'api_key_invalid'
  if (token === 'nobody') return 'token_invalid'
  // "API key → Bearer JWT → gateway headers", which count only with the secret
  const trusted = ['ours', 'theirs', 'nobody'].find((credential) => credential === at('gateway'))
  const accepted = key ?? token ?? trusted
  if (accepted === undefined) return 'credentials_missing'
  if (accepted === 'nobody') return 'gateway_identity_invalid'
  // "structural_admin: JWT with role": keys and gateways are of data_access
  const admin = key === undefined && token !== undefined
  const isUser = accepted === 'ours-user'
  if (route === 'admin' && (!admin || isUser)) return 'privilege_domain_mismatch'
  // No rule of the collection and no topic is for users.
  if (isUser && route !== 'me') return 'forbidden'
  return accepted.replace(/-(anon|user)$/, '')
}

function wire(key: string | undefined, token: string | undefined): string {
  if (key !== undefined) return 'token_invalid'
  if (token === undefined) return 'credentials_missing'
  return token === 'ours' ? 'ours' : 'token_invalid'
}

/** Every set of `size` presentations in different carriers. */
export function sets(size: number): Presentation[][] {
  const choose = (carriers: readonly Carrier[], left: number): Presentation[][] => {
    if (left === 0) return [[]]
    return carriers.flatMap((carrier, index) =>
      CARRIERS[carrier].flatMap((credential) =>
        choose(carriers.slice(index + 1), left - 1).map((rest) => [{ carrier, credential }, ...rest]),
      ),
    )
  }
  return choose(Object.keys(CARRIERS) as Carrier[], size)
}
