/** Keeps one organization for each tenant in a realm of Keycloak, by its admin API. Other organizations of the realm are left as they are. */

import type KeycloakAdminClient from '@keycloak/keycloak-admin-client'
import { Problem } from '../core/problem.ts'
import type { TenantId } from '../core/tenant.ts'

export interface KeycloakSettings {
  /** Base URL, without `/admin` and `/realms`. */
  readonly url: string
  readonly realm: string
  /** A confidential client of the realm whose service account has the role `manage-organizations`. */
  readonly clientId: string
  readonly clientSecret: string
}

/** A tenant, as its organization shows it. */
export interface TenantOrganization {
  readonly tenantId: TenantId
  readonly name: string
  readonly slug: string
}

export type OrganizationState = 'own' | 'missing' | 'altered' | 'foreign'

type Stored = Awaited<ReturnType<KeycloakAdminClient['organizations']['findOne']>>

/** The attribute that names the tenant. Its absence means that somebody else made the organization. */
const ATTRIBUTE = 'tenant_id'
const REQUEST_MS = 10_000
const PAGE = 100

export class Organizations {
  readonly #settings: KeycloakSettings
  #client: KeycloakAdminClient | undefined
  #token: { readonly text: string; readonly untilMs: number } | undefined

  constructor(settings: KeycloakSettings) {
    this.#settings = settings
  }

  /** How the organization of the tenant differs from its record. @throws Problem `dependency_unavailable` */
  compare(tenant: TenantOrganization): Promise<OrganizationState> {
    return this.#run(async (client) => {
      const found = await find(client, tenant.tenantId)
      if (found !== undefined) return isAsWanted(found, wantedOf(tenant)) ? 'own' : 'altered'
      return (await hasAlias(client, tenant.tenantId)) ? 'foreign' : 'missing'
    })
  }

  /**
   * Makes the organization of the tenant, or makes it as it should be; its members, domains and identity providers stay.
   * @throws Problem `conflict` if another organization has its alias or its name, `dependency_unavailable`
   */
  set(tenant: TenantOrganization): Promise<void> {
    const wanted = wantedOf(tenant)
    return this.#run(async (client) => {
      const found = await find(client, tenant.tenantId)
      if (found === undefined) return create(client, wanted)
      if (isAsWanted(found, wanted)) return
      await client.organizations
        .updateById({ id: found.id ?? '' }, { ...found, ...wanted })
        .catch((error: unknown) => {
          throw isConflict(error) ? taken(`the name ${wanted.name}`) : error
        })
    })
  }

  /** Removes the organization with its memberships; one that somebody else has made stays. @throws Problem `dependency_unavailable` */
  remove(tenantId: TenantId): Promise<void> {
    return this.#run(async (client) => {
      const found = await find(client, tenantId)
      if (found === undefined) return
      await client.organizations.delById({ id: found.id ?? '' }).catch((error: unknown) => {
        if (statusOf(error) !== NOT_FOUND) throw error
      })
    })
  }

  /** 1 if the tenant has an organization, else 0. @throws Problem `dependency_unavailable` */
  count(tenantId: TenantId): Promise<number> {
    return this.#run(async (client) => ((await find(client, tenantId)) === undefined ? 0 : 1))
  }

  /** @throws Problem `dependency_unavailable` if Keycloak is away, or refuses */
  async #run<T>(work: (client: KeycloakAdminClient) => Promise<T>): Promise<T> {
    try {
      return await work(await this.#open())
    } catch (cause) {
      const status = statusOf(cause)
      if (status === undefined && !isAway(cause)) throw cause
      // It may have been revoked.
      this.#token = undefined
      const why = status === undefined ? 'does not answer' : `refuses to manage organizations (${status})`
      throw new Problem('dependency_unavailable', { detail: `Keycloak ${why}.`, cause })
    }
  }

  async #open(): Promise<KeycloakAdminClient> {
    if (this.#client !== undefined) return this.#client
    const { url, realm: realmName } = this.#settings
    // It is large, and most installations have no Keycloak.
    const { default: Client } = await import('@keycloak/keycloak-admin-client')
    this.#client = new Client({ baseUrl: url.replace(/\/$/, ''), realmName, timeout: REQUEST_MS })
    // Its own way to get a token needs one to refresh it, which machines do not get.
    this.#client.registerTokenProvider({ getAccessToken: () => this.#accessToken() })
    return this.#client
  }

  async #accessToken(): Promise<string> {
    if (this.#token !== undefined && performance.now() < this.#token.untilMs) return this.#token.text
    const { url, realm, clientId, clientSecret } = this.#settings
    const endpoint = `${url.replace(/\/$/, '')}/realms/${encodeURIComponent(realm)}/protocol/openid-connect/token`
    const parameters = { grant_type: 'client_credentials', client_id: clientId, client_secret: clientSecret }
    const body = new URLSearchParams(parameters)
    const response = await fetch(endpoint, { method: 'POST', body, signal: AbortSignal.timeout(REQUEST_MS) })
    if (!response.ok) throw Object.assign(new Error('Keycloak gives no token'), { response })
    const { access_token: text } = (await response.json()) as { access_token: string }
    this.#token = { text, untilMs: performance.now() + TOKEN_USED_MS }
    return text
  }
}

/** Shorter than the tokens of any realm. */
const TOKEN_USED_MS = 20_000
const NOT_FOUND = 404
const CONFLICT = 409

/** People see the name, which is unique in the realm, as the slug of a tenant is. */
const wantedOf = ({ tenantId, name, slug }: TenantOrganization) => ({
  ...{ alias: tenantId, name: slug, description: name, enabled: true },
  attributes: { [ATTRIBUTE]: [tenantId] },
})

const isAsWanted = (found: Stored, wanted: Wanted): boolean =>
  found.name === wanted.name && found.description === wanted.description && found.enabled === true

type Wanted = ReturnType<typeof wantedOf>

/** @throws Problem `conflict` if an organization that the platform did not make has the alias or the name */
async function create(client: KeycloakAdminClient, wanted: Wanted): Promise<void> {
  try {
    await client.organizations.create(wanted)
  } catch (error) {
    if (!isConflict(error)) throw error
    // Another worker has made it meanwhile.
    if ((await find(client, wanted.alias)) !== undefined) return
    const isAlias = await hasAlias(client, wanted.alias)
    throw taken(isAlias ? `the alias ${wanted.alias}` : `the name ${wanted.name}`)
  }
}

/** The organization that the platform has made for the tenant. */
async function find(client: KeycloakAdminClient, tenantId: TenantId): Promise<Stored | undefined> {
  const [own] = (await client.organizations.find({ q: `${ATTRIBUTE}:${tenantId}` })).filter(
    ({ alias }) => alias === tenantId,
  )
  return own?.id === undefined ? undefined : client.organizations.findOne({ id: own.id })
}

/** True if any organization has the alias. Keycloak does not search for it: reads all organizations of the realm. */
async function hasAlias(client: KeycloakAdminClient, wanted: TenantId): Promise<boolean> {
  for (let first = 0; ; first += PAGE) {
    const page = await client.organizations.find({ first, max: PAGE })
    if (page.some(({ alias }) => alias === wanted)) return true
    if (page.length < PAGE) return false
  }
}

const statusOf = (error: unknown): number | undefined =>
  (error as { readonly response?: { readonly status?: number } }).response?.status

/** As `fetch` tells it. */
const isAway = (error: unknown): boolean =>
  error instanceof Error && (error.message === 'fetch failed' || error.name === 'TimeoutError')

const isConflict = (error: unknown): boolean => statusOf(error) === CONFLICT

const taken = (what: string): Problem =>
  new Problem('conflict', {
    detail: `Keycloak has an organization with ${what} that the platform did not make. Rename or remove it there.`,
  })
