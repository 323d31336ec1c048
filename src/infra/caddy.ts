/** Keeps the routes of host names in Caddy, by its admin API. Routes of others in the same server are left as they are. */

import { isDeepStrictEqual } from 'node:util'
import { Problem } from '../core/problem.ts'
import type { TenantRef } from '../core/tenant.ts'
import type { Config } from './config.ts'
import { retryContended, retryTransient } from './retry.ts'

/** Milliseconds of one request to the admin API. */
const REQUEST_MS = 10_000
/** Milliseconds for which a request is repeated that Caddy does not answer. */
const AWAY_MS = 2_000

/** https://caddyserver.com/docs/json/apps/http/servers/routes/ */
interface Route {
  readonly '@id'?: string
  readonly match?: readonly { readonly host?: readonly string[] }[]
}

interface ReadRoutes {
  /** Undefined if the server has no list. */
  readonly list: readonly Route[] | undefined
  /** Of the server; a change that names it fails if the server has changed since. */
  readonly etag: string
}

interface Change {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface RouteDifference {
  readonly host: string
  readonly kind: 'missing' | 'altered' | 'left_over'
}

export class Caddy {
  readonly #server: string
  readonly #url: string
  readonly #upstream: string

  constructor(
    adminUrl: string,
    config: Pick<Config, 'TENON_CADDY_SERVER' | 'TENON_CADDY_UPSTREAM' | 'TENON_HOST' | 'TENON_PORT'>,
  ) {
    this.#server = config.TENON_CADDY_SERVER
    this.#url = `${adminUrl.replace(/\/$/, '')}/config/apps/http/servers/${this.#server}`
    this.#upstream = config.TENON_CADDY_UPSTREAM ?? `${config.TENON_HOST}:${config.TENON_PORT}`
  }

  /** How the routes of a workspace differ from those of its names. @throws Problem `dependency_unavailable` */
  async compare(owner: TenantRef, hosts: readonly string[]): Promise<RouteDifference[]> {
    const { list: routes = [] } = await this.#read()
    const found = new Map(routes.filter(isOf(owner)).map((route) => [hostIn(route), route]))
    const different = hosts.flatMap((host): RouteDifference[] => {
      const route = found.get(host)
      if (route === undefined) return [{ host, kind: 'missing' }]
      return isDeepStrictEqual(route, this.#routeOf(owner, host)) ? [] : [{ host, kind: 'altered' }]
    })
    const leftOver = [...found.keys()].filter((host) => !hosts.includes(host))
    return [...different, ...leftOver.map((host) => ({ host, kind: 'left_over' as const }))]
  }

  /**
   * Makes the routes of a workspace, or of a tenant with all its workspaces, those of these names. They come first, so that a route for all names does not
   * hide them. Of two processes that change the server at the same time, the second reads it again.
   * @param readHosts is called after the server was read, so that no process writes names that are older than what it replaces
   * @throws Problem `dependency_unavailable`, `overloaded`
   */
  async set(owner: TenantRef, readHosts: () => Promise<readonly string[]>): Promise<void> {
    const overtaken = `Caddy's server ${this.#server} is changed by others all the time.`
    await retryContended(overtaken, () => this.#replace(owner, readHosts))
  }

  /** @returns undefined if the server has changed meanwhile */
  async #replace(owner: TenantRef, readHosts: () => Promise<readonly string[]>): Promise<true | undefined> {
    const { list, etag } = await this.#read()
    const routes = list ?? []
    const isOwn = isOf(owner)
    const wanted = (await readHosts()).map((host) => this.#routeOf(owner, host))
    const next = [...wanted, ...routes.filter((route) => !isOwn(route))]
    if (isDeepStrictEqual(byId(routes), byId(next))) return true
    const reply = await this.#send('/routes', {
      // POST makes a list; into one that is there it would put this as an element.
      method: list === undefined ? 'POST' : 'PATCH',
      headers: { 'content-type': 'application/json', 'if-match': etag },
      body: JSON.stringify(next),
    })
    if (reply.ok) return true
    if (reply.status === PRECONDITION_FAILED) return undefined
    throw refused(reply.status, await reply.text())
  }

  /** The number of routes of a workspace, or of a tenant with all its workspaces. @throws Problem `dependency_unavailable` */
  async count(owner: TenantRef): Promise<number> {
    return ((await this.#read()).list ?? []).filter(isOf(owner)).length
  }

  async #read(): Promise<ReadRoutes> {
    const reply = await this.#send('')
    const text = await reply.text()
    if (!reply.ok) throw refused(reply.status, text)
    const server = JSON.parse(text) as { readonly routes?: readonly Route[] } | null
    if (server === null)
      throw new Problem('dependency_unavailable', {
        detail: `Caddy has no HTTP server ${this.#server}. Configure one, or name another in TENON_CADDY_SERVER.`,
      })
    return { list: server.routes, etag: reply.headers.get('etag') ?? '' }
  }

  /** Caddy asks requests of `fetch` for an origin, as those of pages; it allows its own. When its configuration changes, it ends connections. */
  async #send(path: string, { headers, ...init }: Change = {}): Promise<Response> {
    const url = `${this.#url}${path}`
    const all = { ...init, headers: { origin: new URL(url).origin, ...headers } }
    return retryTransient(AWAY_MS, () =>
      fetch(url, { ...all, signal: AbortSignal.timeout(REQUEST_MS) }).catch((cause: unknown) => {
        throw new Problem('dependency_unavailable', { detail: 'Caddy does not answer.', cause })
      }),
    )
  }

  #routeOf(owner: TenantRef, host: string) {
    return {
      '@id': `${prefixOf(owner)}${host}`,
      match: [{ host: [host] }],
      handle: [{ handler: 'reverse_proxy', upstreams: [{ dial: this.#upstream }] }],
      terminal: true,
    }
  }
}

const PRECONDITION_FAILED = 412

const prefixOf = ({ tenantId, workspaceId }: TenantRef): string =>
  workspaceId === '-' ? `tenon:${tenantId}:` : `tenon:${tenantId}:${workspaceId}:`

const isOf = (owner: TenantRef) => {
  const prefix = prefixOf(owner)
  return (route: Route): boolean => route['@id']?.startsWith(prefix) === true
}

/** No id and no name holds a colon. */
const hostIn = (route: Route): string => route['@id']?.split(':').at(-1) ?? ''

/** Names of one owner have no order. */
const byId = (routes: readonly Route[]): Route[] =>
  routes.toSorted((a, b) => String(a['@id']).localeCompare(String(b['@id'])))

const refused = (status: number, text: string): Problem =>
  new Problem('dependency_unavailable', {
    detail: `Caddy refuses the routes of host names (${status}). The log has its reason.`,
    cause: new Error(text.slice(0, 500)),
  })
