/** Authenticates a credential: API keys by a cached digest lookup, tokens by their issuer, gateway headers by their form. */

import { decodeJwt, errors } from 'jose'
import type { ApiKeyKind, Principal, Role, StorageAction, StorageGrant } from '../../core/policy.ts'
import { domainOf, restrictingScopes, storageScopes, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { PROBLEMS } from '../../core/problem-catalogue.ts'
import {
  isTenantId,
  isWorkspaceId,
  type TenantId,
  type WorkspaceId,
  type WorkspaceRef,
} from '../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../infra/crypto/secrets.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import type { TtlCache } from '../../infra/ttl-cache.ts'
import { ORIGINS_COLUMN } from '../browser-origins.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { operatorsRefused } from '../operator-refusal.ts'
import { secondFactorRequired } from '../recent-proof.ts'
import { type SuspendedCode, suspensionOf, type TenantStates } from '../tenant-states.ts'
import type { Claims, TokenIssuer } from './claims.ts'
import {
  type Credential,
  type GatewayIdentity,
  identityOf,
  keyHash,
  keyKind,
  type LinkCredential,
  type Signature,
} from './credentials.ts'
import { ACCOUNT_PAGE } from './holder-session.ts'
import { readLink } from './object-links.ts'
import { type Bounds, rolesOf } from './roles-of-token.ts'
import type { SubjectStatus } from './subject-status.ts'

/** A cached key, with the states of its tenant and workspace. */
export interface KeyRow {
  readonly id: string
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly kind: ApiKeyKind
  readonly last4: string
  readonly scopes: readonly string[]
  readonly rate_limit: number | null
  readonly expires_at: string | null
  readonly disabled_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** The keys before it, of one that was made by rotation. */
  readonly replaces: readonly string[] | null
  readonly tenant_state: string
  readonly workspace_state: string
  readonly origins: readonly string[]
  readonly bucket: string | null
  /** Of a storage key. */
  readonly secret: Buffer | null
  readonly actions: readonly StorageAction[] | null
  readonly prefixes: readonly string[] | null
}

/** Limits failed authentications of a client. */
export interface AuthFailureLimiter {
  /** Called before a key is looked up. @throws Problem after too many failures */
  check(): void
  /** Counts an unknown key. */
  record(): void
}

interface AuthenticatorServices {
  readonly database: Database
  readonly keys: TtlCache<KeyRow>
  readonly tenantStates: TenantStates
  readonly secrets: Secrets
  readonly subjectStatus: SubjectStatus
  /** Of the API, as browsers see it. */
  readonly publicUrl: string
}

export class Authenticator {
  readonly #system: SystemScope
  readonly #issuers: ReadonlyMap<string, TokenIssuer>
  readonly #keys: TtlCache<KeyRow>
  readonly #tenantStates: TenantStates
  readonly #secrets: Secrets
  readonly #subjects: SubjectStatus
  readonly #accountUrl: string

  /** @param issuers by the `iss` of their tokens */
  constructor(services: AuthenticatorServices, issuers: ReadonlyMap<string, TokenIssuer>) {
    this.#system = new SystemScope('authenticate', services.database)
    this.#issuers = issuers
    this.#keys = services.keys
    this.#tenantStates = services.tenantStates
    this.#secrets = services.secrets
    this.#subjects = services.subjectStatus
    this.#accountUrl = `${services.publicUrl}${ACCOUNT_PAGE}`
  }

  /**
   * @param failures limits lookups of unknown keys; absent for a caller that was authenticated before
   * @param at the workspace of the host name that the request is made for, if it has one: credentials of others are not valid there,
   *   and roles that reach further do not count
   * @throws Problem 401 if the credential is not valid, 403 if its tenant or workspace is suspended, or if a link is not valid
   */
  async authenticate(
    credential: Credential,
    failures?: AuthFailureLimiter,
    at?: WorkspaceRef,
  ): Promise<Principal> {
    const principal = await this.#principal(credential, failures, at)
    return at === undefined ? principal : { ...principal, roles: principal.roles.filter(isOfWorkspace) }
  }

  #principal(credential: Credential, failures: AuthFailureLimiter | undefined, at: At): Promise<Principal> {
    if (credential.kind === 'api_key') return this.#key(credential.text, failures, at)
    // A transfer that began in time may end: links have short lives, and objects may be large.
    if (credential.kind === 'link') return this.#link(credential, failures === undefined, at)
    if (credential.kind === 'signature') return this.#signature(credential, failures, at)
    return credential.kind === 'token'
      ? this.#token(credential.text, at)
      : this.#gateway(credential.identity, at)
  }

  async #key(text: string, failures: AuthFailureLimiter | undefined, at: At): Promise<Principal> {
    const kind = keyKind(text)
    if (kind === undefined) throw invalidKey()
    if (kind === 'storage') throw invalidKey(SECRET_SENT)
    const hash = keyHash(text)
    const row = await this.#keys.load(hash.toString('base64'), () =>
      this.#find(sql`k.hash = ${hash}`, failures),
    )
    requireHere(row, failures, at)
    return principalOf(row)
  }

  /** The signature is checked first, so that a caller who cannot sign with a key learns nothing of its state. */
  async #signature(
    { keyId, verify }: Signature,
    failures: AuthFailureLimiter | undefined,
    at: At,
  ): Promise<Principal> {
    const row = await this.#keys.load(keyId, () =>
      this.#find(sql`k.id = ${keyId} and k.kind = 'storage'`, failures),
    )
    requireHere(row, failures, at)
    const { secret, tenant_id: tenantId, workspace_id: workspaceId } = row
    if (secret === null) throw invalidKey()
    const purpose = purposeIn({ tenantId, workspaceId }, storageKeyPurpose(row.id))
    verify(this.#secrets.open(purpose, secret).toString())
    return principalOf(row)
  }

  /**
   * The credential that made the link, with the rights that it has now. `key` is absent, since a page that sends a link does not
   * hold the key.
   * @param hasBegun true if the request was authenticated before: the link may have expired since
   */
  async #link({ text, request }: LinkCredential, hasBegun: boolean, at: At): Promise<Principal> {
    const { ref, maker, expiresMs, terms } = readLink(this.#secrets, text, request)
    if (isElsewhere(ref.workspaceId, at)) throw new Problem('link_invalid')
    if (!hasBegun && expiresMs <= Date.now()) throw new Problem('link_expired')
    const holder =
      'keyId' in maker ? await this.#holderById(maker.keyId) : await this.#tokenHolder(maker.claims)
    if (holder.tenantId !== ref.tenantId || holder.workspaceId !== ref.workspaceId)
      throw new Problem('link_invalid')
    return { ...holder, seen: `a link that was made by ${holder.seen}`, link: terms }
  }

  /** @throws RejectedKey `link_expired` if the key has ended */
  async #holderById(id: string): Promise<Principal> {
    const row = await this.#keys
      .load(id, () => this.#find(sql`k.id = ${id}`, undefined))
      .catch((error) => {
        throw error instanceof Problem && error.code === 'api_key_invalid' ? makerEnded(error) : error
      })
    const rejection = rejectionOf(row)
    if (rejection !== undefined)
      throw new RejectedKey(PROBLEMS[rejection].status === 401 ? 'link_expired' : rejection, row)
    const { key: _, ...holder } = principalOf(row)
    return holder
  }

  /** @throws Problem `link_expired` if the token was revoked, or its subject or client has ended */
  async #tokenHolder(claims: Claims): Promise<Principal> {
    if (!(await this.#subjects.isTokenActive(claims))) throw makerEnded()
    if (claims.user === undefined || claims.credential === undefined) return this.#holderOfClaims(claims)
    const user = await this.#subjects.describeUser(claims.sub)
    if (user === undefined) throw makerEnded()
    return this.#holderOfClaims({ ...claims, user })
  }

  #holderOfClaims(claims: Claims): Promise<Principal> {
    return this.requirePrincipal(claims).catch((error: unknown) => {
      throw error instanceof Problem && error.code === 'token_invalid' ? makerEnded(error) : error
    })
  }

  async #find(which: Sql, failures: AuthFailureLimiter | undefined): Promise<KeyRow> {
    failures?.check()
    const row = await this.#system.row<KeyRow>(sql`
      select k.id, k.tenant_id, k.workspace_id, k.kind, k.last4, to_json(k.scopes) as scopes, k.rate_limit,
        k.expires_at, k.disabled_at, k.revoked_at, k.last_used_at,
        k.secret, to_json(k.actions) as actions, to_json(k.prefixes) as prefixes,
        t.state as tenant_state, w.state as workspace_state,
        ${ORIGINS_COLUMN}, w.bucket, case when k.sees_earlier then (
          with recursive line as (
            select k.rotated_from as id
            union
            select o.rotated_from from api_keys o join line on o.id = line.id where o.sees_earlier
          ) select json_agg(id) from line) end as replaces
      from api_keys k join tenants t on t.id = k.tenant_id join workspaces w on w.id = k.workspace_id
        left join services s on s.tenant_id = k.tenant_id and s.workspace_id = k.workspace_id
      where ${which}`)
    if (row === undefined) {
      failures?.record()
      throw invalidKey()
    }
    if (rejectionOf(row) === undefined) this.#recordUse(row)
    return row
  }

  /** Updates `last_used_at` in the background. A key in use is looked up every few seconds, so a failure is retried. */
  #recordUse({ id, last_used_at: lastUsedAt }: KeyRow): void {
    if (lastUsedAt !== null && Date.parse(lastUsedAt) > Date.now() - ACCESS_LIMITS.keyUseLagMs) return
    const lag = sql`${ACCESS_LIMITS.keyUseLagMs} * interval '1 millisecond'`
    this.#system
      .row(sql`update api_keys set last_used_at = now() where id = ${id}
        and (last_used_at is null or last_used_at <= now() - ${lag})`)
      .catch(() => {})
  }

  /**
   * Tenant and workspace of a token must exist, belong together and be active, whenever it was issued.
   * @returns origins of the pages that may use the credential, and the bucket of the workspace
   * @throws Problem `code` if they do not exist, `tenant_suspended`, `workspace_suspended`
   */
  async #requireActive(
    { tenantId, workspaceId }: Bounds,
    code: 'token_invalid' | 'gateway_identity_invalid',
    roles: readonly Role[],
  ): Promise<Pick<Principal, 'origins' | 'bucket'> & { readonly refusesOperators?: boolean }> {
    if (tenantId === undefined) return {}
    const states = await this.#tenantStates.of(tenantId, workspaceId)
    if (states === undefined || states.workspace === null) throw new Problem(code, { detail: UNKNOWN_BOUNDS })
    const suspension = suspensionOf(states.tenant, states.workspace)
    if (suspension !== undefined) throw new RejectedCaller(suspension, roles)
    if (workspaceId === undefined || states.origins === undefined) return {}
    const { origins, bucket, refusesOperators = false } = states
    return { origins, refusesOperators, ...(typeof bucket === 'string' && { bucket }) }
  }

  async #token(text: string, at: At): Promise<Principal> {
    const claims = await this.#verify(text)
    if (isElsewhere(claims.workspaceId, at)) throw invalidToken('token_invalid')
    return this.requirePrincipal(claims)
  }

  /**
   * The principal that verified claims describe.
   * @throws Problem `token_invalid` if its tenant or workspace does not exist, 403 if one is suspended
   */
  async requirePrincipal(claims: Claims): Promise<Principal> {
    const { sub, clientId, tenantId, workspaceId, groups = [] } = claims
    // A malformed id is an error; it must not count as a token without a tenant.
    if (
      (tenantId !== undefined && !isTenantId(tenantId)) ||
      (workspaceId !== undefined && !isWorkspaceId(workspaceId))
    )
      throw new Problem('token_invalid', { detail: UNKNOWN_BOUNDS })
    const bounds = {
      ...(isTenantId(tenantId) && { tenantId }),
      ...(isWorkspaceId(workspaceId) && { workspaceId }),
    }
    const granted = rolesOf(claims, bounds)
    const { refusesOperators, ...ofWorkspace } = await this.#requireActive(
      bounds,
      'token_invalid',
      granted.roles,
    )
    if (refusesOperators && claims.dataToken?.holderRole === 'operator') throw operatorsRefused()
    const proof = await this.#checkProof(claims, bounds, granted.roles)
    const scopes = restrictingScopes(claims.scopes)
    return {
      kind: 'token',
      seen: `a token of ${sub}`,
      subject: sub,
      claims,
      ...(proof && { proof }),
      ...(clientId !== undefined && { clientId }),
      ...bounds,
      ...ofWorkspace,
      ...granted,
      ...(scopes && { scopes }),
      // Groups belong to a tenant; a token of none, such as an operator's, is in no group of any.
      ...(bounds.tenantId !== undefined && groups.length > 0 && { groups }),
    }
  }

  /**
   * How the subject has signed in.
   * @throws Problem `insufficient_user_authentication` for a person without a second factor where one is required
   */
  async #checkProof(
    { sub, proof, dataToken }: Claims,
    { tenantId }: Bounds,
    roles: readonly Role[],
  ): Promise<Principal['proof']> {
    if (proof === undefined || !proof.isPerson) return proof && { ...proof, hasSecondFactor: false }
    const { hasSecondFactor, needsSecondFactor } = await this.#subjects.readSecondFactor(sub)
    if (proof.isMultiFactor) return { ...proof, hasSecondFactor }
    const held = dataToken === undefined ? roles : [dataToken.holderRole]
    const isAdmin = held.some((role) => domainOf(role) === 'structural_admin')
    const of = dataToken?.holderRole === 'operator' ? undefined : tenantId
    if (needsSecondFactor || (isAdmin && (await this.#subjects.requiresSecondFactor(of))))
      throw secondFactorRequired(this.#accountUrl)
    return { ...proof, hasSecondFactor }
  }

  /**
   * Verifies a token. Before that, only its `iss` is read, to select a configured issuer by exact match.
   * @throws Problem `token_invalid`, `token_expired`; `dependency_unavailable` if it cannot be verified now
   */
  async #verify(token: string): Promise<Claims> {
    try {
      const issuer = this.#issuers.get(decodeJwt(token).iss ?? '')
      if (issuer === undefined) throw new errors.JWTInvalid('the issuer is not trusted')
      return await issuer.verify(token)
    } catch (cause) {
      if (!(cause instanceof errors.JOSEError)) throw cause
      throw invalidToken(cause instanceof errors.JWTExpired ? 'token_expired' : 'token_invalid', cause)
    }
  }

  /** Gateway headers have data roles only. */
  async #gateway(sent: GatewayIdentity, at: At): Promise<Principal> {
    const { subject, tenantId, workspaceId, role } = identityOf(sent)
    if (isElsewhere(workspaceId, at))
      throw new Problem('gateway_identity_invalid', { detail: UNKNOWN_BOUNDS })
    const { refusesOperators: _, ...ofWorkspace } = await this.#requireActive(
      { tenantId, workspaceId },
      'gateway_identity_invalid',
      [role],
    )
    return {
      kind: 'gateway',
      seen: `the headers of a gateway for ${subject}`,
      subject,
      tenantId,
      workspaceId,
      ...ofWorkspace,
      roles: [role],
    }
  }
}

/** The workspace of the host name of a request; undefined for a name of the platform. */
type At = WorkspaceRef | undefined

/** True if the host name of the request is that of another workspace than the credential's. */
const isElsewhere = (workspaceId: string | undefined, at: At): boolean =>
  at !== undefined && workspaceId !== at.workspaceId

const isOfWorkspace = (role: Role): boolean => !(TENANT_ADMINS as readonly Role[]).includes(role)

/** @throws Problem `api_key_invalid`, as for an unknown key */
function requireHere(row: KeyRow, failures: AuthFailureLimiter | undefined, at: At): void {
  if (!isElsewhere(row.workspace_id, at)) return
  failures?.record()
  throw invalidKey()
}

/** The holder of a key. @throws RejectedKey if it is not valid now */
function principalOf(row: KeyRow): Principal {
  const rejection = rejectionOf(row)
  if (rejection !== undefined) throw new RejectedKey(rejection, row)
  const { id, kind, last4, expires_at } = row
  return {
    kind: 'api_key',
    seen: `a ${kind} API key ending …${last4}`,
    subject: id,
    tenantId: row.tenant_id,
    workspaceId: row.workspace_id,
    origins: row.origins,
    ...(row.bucket !== null && { bucket: row.bucket }),
    ...rightsOf(row),
    ...(row.replaces !== null && { replaces: row.replaces }),
    ...(row.rate_limit !== null && { rateLimit: row.rate_limit }),
    key: { id, kind, last4, expires_at },
  }
}

/** A storage key has the role of a service key, within scopes of objects. */
function rightsOf({
  kind,
  scopes,
  actions,
  prefixes,
}: KeyRow): Pick<Principal, 'roles' | 'scopes' | 'storage'> {
  if (kind !== 'storage') return { roles: [kind], ...(scopes.length > 0 && { scopes: new Set(scopes) }) }
  const storage: StorageGrant = { actions: actions ?? [], prefixes }
  return { roles: ['service'], scopes: storageScopes(storage), storage }
}

/** The purpose that the secret of a storage key is encrypted for, in its workspace. */
export const storageKeyPurpose = (keyId: string): string => `api-key:${keyId}`

/** The rejection of a known caller. The roles of the caller decide which hint the response has. */
export class RejectedCaller extends Problem {
  readonly roles: readonly Role[]

  constructor(
    code: RejectionCode | 'link_expired',
    roles: readonly Role[],
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(code, { headers })
    this.roles = roles
  }
}

/** The rejection of a known key that is not valid now; its tenant's audit log records the use. */
export class RejectedKey extends RejectedCaller {
  readonly id: string
  readonly ref: WorkspaceRef

  constructor(code: RejectionCode | 'link_expired', { id, kind, tenant_id, workspace_id }: KeyRow) {
    super(
      code,
      [kind === 'anon' ? 'anon' : 'service'],
      PROBLEMS[code].status === 401 ? CHALLENGE.headers : {},
    )
    this.id = id
    this.ref = { tenantId: tenant_id, workspaceId: workspace_id }
  }
}

const makerEnded = (cause?: unknown) =>
  new Problem('link_expired', {
    detail:
      'The credential that made the link was revoked or has expired, or its holder is no longer active.',
    ...(cause !== undefined && { cause }),
  })

/** Why the key is not valid now; undefined if it is. */
function rejectionOf(row: KeyRow): RejectionCode | undefined {
  if (row.revoked_at !== null) return 'api_key_revoked'
  if (row.expires_at !== null && Date.parse(row.expires_at) <= Date.now()) return 'api_key_expired'
  if (row.disabled_at !== null) return 'api_key_disabled'
  return suspensionOf(row.tenant_state, row.workspace_state)
}

type RejectionCode = 'api_key_revoked' | 'api_key_expired' | 'api_key_disabled' | SuspendedCode

const UNKNOWN_BOUNDS = 'The tenant or workspace does not exist, or the workspace belongs to another tenant.'

const CHALLENGE = { headers: { 'www-authenticate': 'ApiKey realm="tenon"' } }

const invalidToken = (code: 'token_invalid' | 'token_expired', cause?: unknown) =>
  new Problem(code, {
    headers: { 'www-authenticate': 'Bearer realm="tenon", error="invalid_token"' },
    ...(cause !== undefined && { cause }),
  })

const invalidKey = (more: { detail?: string } = {}) =>
  new Problem('api_key_invalid', { ...CHALLENGE, ...more })

const SECRET_SENT = {
  detail:
    'This is the secret of a storage key, which signs requests of the S3 API and is never sent. Rotate the key, and send an anon or service key here.',
}
