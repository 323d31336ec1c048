/**
 * OAuth clients: machines with a secret and public ones that act for people, made through the API; those that registered
 * themselves; and copies of documents that describe clients.
 */

import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { isClientId, isDocumentId } from '../../../access/authentication/client-ids.ts'
import { randomIds, typeId } from '../../../core/ids.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { Role } from '../../../core/policy.ts'
import { hiddenIn, mixesScriptsInWord } from '../../../core/text/visible-text.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { TtlCache } from '../../../infra/ttl-cache.ts'
import type { TenantBounds } from '../accounts/accounts-store.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { REDIRECT_URI_RULE, usableRedirectUris } from './redirect-uris.ts'

export interface OAuthClient extends TenantBounds {
  readonly id: string
  readonly name: string
  readonly kind: 'machine' | 'public'
  /** The subjects that a public client signs in: accounts, or the users of its workspace. */
  readonly audience: 'accounts' | 'users'
  /** Of a machine. */
  readonly role: Role | null
  /** Of a machine: it sees payloads of executions and runs that others have started. */
  readonly seesPayloads: boolean
  /** SHA-256 of a machine's secret, hex. */
  readonly secretHash: string | null
  readonly redirectUris: readonly string[]
  /** It registered itself, or its id is the URL of its document: it gets tokens for MCP servers only. */
  readonly registered: boolean
  /** When its document last changed, in seconds since 1970; null for a client without one. */
  readonly changedAt: number | null
}

/** A client that its document describes. */
export interface DocumentClient extends OAuthClient {
  /** The document needs not be read again. */
  readonly isFresh: boolean
  /** The stored copy may be used if the document cannot be read. */
  readonly isKept: boolean
}

/** `active`: its tenant and workspace are. */
type ClientRow = DocumentClient & { readonly active: boolean }

/** Identifies a machine's secret without revealing it. */
export const secretIdOf = ({ secretHash }: Pick<OAuthClient, 'secretHash'>): string | undefined =>
  secretHash?.slice(0, 16)

export class OAuthClients {
  readonly #system: SystemScope
  readonly #known = new TtlCache<ClientRow | null>()

  constructor(database: Database) {
    this.#system = new SystemScope('issuer', database)
  }

  /** A client that may request tokens: its tenant and workspace are active. */
  async find(id: string): Promise<OAuthClient | undefined> {
    const client = await this.#load(id)
    return client?.active === true ? client : undefined
  }

  /** As {@link find}, without the cache. */
  async findNow(id: string): Promise<OAuthClient | undefined> {
    const client = isClientId(id) ? await this.#read(id) : undefined
    return client?.active === true ? client : undefined
  }

  /** The stored copy of a client with a document. */
  async findDocument(id: string): Promise<DocumentClient | undefined> {
    return isDocumentId(id) ? this.#load(id) : undefined
  }

  /**
   * True if the client was not deleted.
   * @param secretId of a token; if given, it must be that of the client's current secret
   */
  async exists(id: string, secretId?: string): Promise<boolean> {
    const client = await this.#load(id)
    return client !== undefined && (secretId === undefined || secretId === secretIdOf(client))
  }

  /** Drops a changed client from the cache of this node; other nodes reload it within a few seconds. */
  forget(id: string): void {
    this.#known.forget((client) => client?.id === id)
  }

  /** Cached for a few seconds, for which a deleted client stays valid. */
  async #load(id: string): Promise<ClientRow | undefined> {
    if (!isClientId(id)) return undefined
    return (await this.#known.load(id, async () => (await this.#read(id)) ?? null)) ?? undefined
  }

  #read(id: string): Promise<ClientRow | undefined> {
    return this.#system.row<ClientRow>(sql`
      select c.id, c.tenant_id as "tenantId", c.workspace_id as "workspaceId", c.name, c.kind, c.audience, c.role, c.sees_payloads as "seesPayloads",
        c.secret_hash as "secretHash", c.redirect_uris as "redirectUris", c.registered,
        floor(extract(epoch from c.changed_at))::float8 as "changedAt",
        coalesce(c.fresh_until > now(), false) as "isFresh",
        coalesce(c.fresh_until > now() - make_interval(hours => ${ISSUER_LIMITS.clientDocuments.keptHours}), false) as "isKept",
        coalesce(t.state, 'active') = 'active' and coalesce(w.state, 'active') = 'active' as active
      from oauth_clients c left join tenants t on t.id = c.tenant_id left join workspaces w on w.id = c.workspace_id
      where c.id = ${id}`)
  }

  /**
   * Stores a client that registered itself (RFC 7591), and deletes those that were not used for long. At the maximum, it
   * replaces the oldest unused one, so that useless registrations cannot block useful ones.
   * @returns its id; undefined if all are in use
   */
  async register(name: string, redirectUris: readonly string[]): Promise<string | undefined> {
    const id = typeId('client', randomIds.uuid())
    const insert = sql`
      insert into oauth_clients (id, kind, name, redirect_uris, registered, created_by)
      select ${id}, 'public', ${name}, ${JSON.stringify(redirectUris)}::jsonb, true, 'registration'
      where (select count(*) from oauth_clients where registered) < ${ISSUER_LIMITS.registrationsMax}
      returning id`
    const [, , made = []] = await this.#system.batch(FORGET_UNUSED, MAKE_ROOM, insert)
    return made.length === 0 ? undefined : id
  }

  /**
   * Stores the copy of a document, under the rules of {@link register}.
   * @returns if it is new or says something else than before; undefined if there are too many clients
   */
  async storeDocument(
    id: string,
    { name, redirectUris, freshSeconds }: NewDocument,
  ): Promise<{ readonly hasChanged: boolean } | undefined> {
    const upsert = sql`
      insert into oauth_clients as c (id, kind, name, redirect_uris, registered, created_by, fresh_until, changed_at)
      select ${id}, 'public', ${name}, ${JSON.stringify(redirectUris)}::jsonb, true, 'document',
        now() + make_interval(secs => ${freshSeconds}), now()
      where (select count(*) from oauth_clients where registered and id <> ${id}) < ${ISSUER_LIMITS.registrationsMax}
      on conflict (id) do update set name = excluded.name, redirect_uris = excluded.redirect_uris,
        fresh_until = excluded.fresh_until,
        changed_at = case when (c.name, c.redirect_uris) = (excluded.name, excluded.redirect_uris)
          then c.changed_at else excluded.changed_at end
      returning changed_at = now()::timestamptz(3) as "hasChanged"`
    const [, , [stored] = []] = await this.#system.batch(FORGET_UNUSED, MAKE_ROOM, upsert)
    this.#known.drop(id)
    return stored as { readonly hasChanged: boolean } | undefined
  }

  /** Records the use of a registered client, once a day. */
  async touch(id: string): Promise<void> {
    await this.#system.rows(sql`
      update oauth_clients set used_at = now()
      where id = ${id} and registered and (used_at is null or used_at < now() - interval '1 day')`)
  }
}

/** The part of a document that is stored. */
interface NewDocument {
  readonly name: string
  readonly redirectUris: readonly string[]
  /** How long it needs not be read again. */
  readonly freshSeconds: number
}

const FORGET_UNUSED = sql`
  delete from oauth_clients where registered and coalesce(used_at, created_at) < now() - case
    when used_at is null then make_interval(hours => ${ISSUER_LIMITS.registrationKept.unusedHours})
    else make_interval(days => ${ISSUER_LIMITS.registrationKept.idleDays}) end`
const MAKE_ROOM = sql`
  delete from oauth_clients where id in (
    select id from oauth_clients where registered and used_at is null order by created_at
    limit greatest(0, (select count(*) from oauth_clients where registered) + 1 - ${ISSUER_LIMITS.registrationsMax}))`

const GRANTS = ['authorization_code', 'refresh_token']

/**
 * The evaluated metadata. The rest is ignored, including `scope`: the scopes are decided when a client requests a token.
 */
const Metadata = Type.Object({
  redirect_uris: Type.Array(Type.String({ maxLength: 2_000 }), {
    minItems: 1,
    maxItems: ISSUER_LIMITS.redirectUrisMax,
    uniqueItems: true,
  }),
  client_name: Type.Optional(Type.String({ maxLength: CORE_LIMITS.nameCharsMax })),
  grant_types: Type.Optional(Type.Array(Type.String(), { maxItems: 10 })),
  response_types: Type.Optional(Type.Array(Type.String(), { maxItems: 10 })),
})
type Metadata = Static<typeof Metadata>

export interface RegistrationReply {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

export class Registration {
  readonly #clients: OAuthClients
  readonly #perAddressMax: number
  readonly #throttle = new AttemptThrottle()

  /** @param perAddressMax registrations per network in 15 minutes */
  constructor(clients: OAuthClients, perAddressMax: number) {
    this.#clients = clients
    this.#perAddressMax = perAddressMax
  }

  /** @param network of the client, as `networkOf` returns it; limits registrations per network */
  async register(body: unknown, network: string): Promise<RegistrationReply> {
    if (!this.#throttle.admit(network, this.#perAddressMax))
      return errorReply('temporarily_unavailable', 'too many registrations from this address', 429)
    if (!Value.Check(Metadata, body))
      return errorReply('invalid_client_metadata', 'redirect_uris is required; see RFC 7591')
    // A client names what it can do at any issuer: what this one does not offer is left out (RFC 7591 §2).
    const redirectUris = usableRedirectUris(body.redirect_uris)
    const error = metadataError(body, redirectUris)
    if (error !== undefined) return error
    const name = body.client_name ?? 'A client without a name'
    const id = await this.#clients.register(name, redirectUris)
    if (id === undefined) return errorReply('temporarily_unavailable', 'there are too many clients', 503)
    return { status: 201, body: clientMetadata(id, name, redirectUris) }
  }
}

function metadataError(metadata: Metadata, usable: readonly string[]): RegistrationReply | undefined {
  const { grant_types: grants, response_types: responses, client_name: name } = metadata
  const fault = clientNameFault(name ?? '')
  if (fault !== undefined) return errorReply('invalid_client_metadata', `client_name ${fault}`)
  if (usable.length === 0) return errorReply('invalid_redirect_uri', `one must be ${REDIRECT_URI_RULE}`)
  if (grants?.includes('authorization_code') === false)
    return errorReply('invalid_client_metadata', 'grant_types must include authorization_code')
  if (responses?.includes('code') === false)
    return errorReply('invalid_client_metadata', 'response_types must include code')
  return undefined
}

/** Why the name of a client that registered itself is unfit for the consent page, after the word `client_name`. */
export function clientNameFault(name: string): string | undefined {
  return (
    hiddenIn(name) ?? (mixesScriptsInWord(name) ? 'has letters of several scripts in one word' : undefined)
  )
}

/** Every client becomes a public one, whichever authentication method it requested; the reply says so (RFC 7591 §3.2.1). */
function clientMetadata(id: string, name: string, redirectUris: readonly string[]): Record<string, unknown> {
  return {
    client_id: id,
    client_id_issued_at: Math.floor(Date.now() / 1_000),
    client_name: name,
    redirect_uris: redirectUris,
    grant_types: GRANTS,
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  }
}

const errorReply = (error: string, text: string, status = 400): RegistrationReply => ({
  status,
  body: { error, error_description: text },
})
