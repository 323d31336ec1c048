/** A simple model of the rules for credentials (interface.md §5, decisions §3), independent of the product code. */

export const ROUTES = ['data', 'admin', 'me', 'events', 'mcp'] as const
export type Route = (typeof ROUTES)[number]

/** Where a credential can be sent, and what can be sent there. */
const PLACES = {
  apikey: ['ours', 'ours-anon', 'theirs', 'nobody'],
  'x-api-key': ['ours', 'ours-anon', 'theirs', 'nobody'],
  'Authorization: ApiKey': ['ours', 'ours-anon', 'theirs', 'nobody'],
  'Authorization: Bearer svc_': ['ours', 'ours-anon', 'theirs', 'nobody'],
  '?apikey=': ['ours', 'ours-anon', 'theirs-anon', 'nobody-anon'],
  'Authorization: Bearer JWT': ['ours', 'theirs', 'nobody'],
  // Gateway headers count only with the secret; without it they are ignored.
  gateway: ['ours', 'theirs', 'nobody', 'ours, no secret', 'ours, wrong secret'],
} as const
export type Place = keyof typeof PLACES

export interface Sent {
  readonly place: Place
  readonly what: string
}

const KEY_PLACES: readonly Place[] = [
  'apikey',
  'x-api-key',
  'Authorization: ApiKey',
  'Authorization: Bearer svc_',
]

/** `ours` or `theirs` if the caller is accepted as that tenant, else the problem code. */
export function expected(route: Route, sent: readonly Sent[]): string {
  const at = (place: Place) => sent.find((one) => one.place === place)?.what
  const inUrl = at('?apikey=')
  // "only on GET /v1/events/subscribe, and only svc_anon_"
  if (inUrl !== undefined && (route !== 'events' || !inUrl.endsWith('-anon'))) return 'service_key_in_query'
  // The Authorization header cannot be sent twice.
  if (sent.filter(({ place }) => place.startsWith('Authorization')).length > 1) return 'credentials_conflict'
  const keys = new Set(sent.filter(({ place }) => KEY_PLACES.includes(place)).map(({ what }) => what))
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
  const trusted = ['ours', 'theirs', 'nobody'].find((what) => what === at('gateway'))
  const who = key ?? token ?? trusted
  if (who === undefined) return 'credentials_missing'
  if (who === 'nobody') return 'gateway_identity_invalid'
  // "structural_admin: JWT with role": keys and gateways are of data_access
  const admin = key === undefined && token !== undefined
  if (route === 'admin' && !admin) return 'privilege_domain_mismatch'
  return who.replace('-anon', '')
}

function wire(key: string | undefined, token: string | undefined): string {
  if (key !== undefined) return 'token_invalid'
  if (token === undefined) return 'credentials_missing'
  return token === 'ours' ? 'ours' : 'token_invalid'
}

/** Every set of `size` presentations in different places. */
export function sets(size: number): Sent[][] {
  const choose = (places: readonly Place[], left: number): Sent[][] => {
    if (left === 0) return [[]]
    return places.flatMap((place, index) =>
      PLACES[place].flatMap((what) =>
        choose(places.slice(index + 1), left - 1).map((rest) => [{ place, what }, ...rest]),
      ),
    )
  }
  return choose(Object.keys(PLACES) as Place[], size)
}
