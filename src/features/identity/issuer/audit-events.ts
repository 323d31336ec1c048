/** Writes audit entries of the issuer: sign-ins, consents, passwords, clients and tokens. */

import type { IncomingMessage } from 'node:http'
import type { JWTPayload } from 'jose'
import type { errors, KoaContextWithOIDC, Provider } from 'oidc-provider'
import { ANONYMOUS, type AuditActor, type AuditEvent, type AuditOwner } from '../../../access/audit/entry.ts'
import { EVERYBODY, type Role } from '../../../core/policy.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { AcceptedAccount, Account, TenantBounds } from '../accounts/accounts-store.ts'
import { isUser } from '../users/users-store.ts'
import type { IssuerServices } from './issuer-services.ts'
import { TokenReused } from './issuer-state.ts'
import { findPerson } from './subjects.ts'

/** The address that a request came from, and its id in the log. */
export interface Requester {
  readonly address: string
  readonly requestId: string
}

/** How a request for consent ended; `forbidden`: the account may not allow it. */
export type ConsentOutcome = 'allowed' | 'denied' | 'forbidden'

/** The known ids of a failed sign-in. The entered texts are not recorded: one may be a password. */
interface FailedSignIn {
  readonly tenantId: string | undefined
  /** Of a user. */
  readonly workspaceId?: string | undefined
  readonly accountId: string | undefined
  /** Absent on the page where passwords are changed. */
  readonly clientId: string | undefined
}

/** Why a sign-in failed. */
type SignInRefusal = 'wrong' | 'wrong_code' | 'wrong_passkey' | 'wrong_identity' | 'too_many'

const REFUSAL_CODES: Readonly<Record<SignInRefusal, string>> = {
  wrong: 'password_wrong',
  wrong_code: 'code_wrong',
  wrong_passkey: 'passkey_wrong',
  wrong_identity: 'identity_refused',
  too_many: 'too_many_attempts',
}

export interface EndedGrant {
  /** As `grantIdOf` gives it. */
  readonly id: string
  readonly clientId: string
  readonly resource: string
  /** Of the hosted MCP server, if it was for one that is published. */
  readonly workspaceId: string | undefined
}

interface ConsentRequest {
  readonly clientId: string
  readonly resource: string
  readonly scope: string
  /** Of the hosted MCP server, if it is for one. */
  readonly workspaceId: string | undefined
}

type Event = Pick<AuditEvent, 'operation' | 'target' | 'actor' | 'owner'> &
  Partial<Pick<AuditEvent, 'outcome' | 'status' | 'code' | 'detail'>>

const USER_PAGES = '/auth/user'
const DOCUMENT = {
  operation: 'oauth_client.read_document',
  target: '/auth/authorize',
  actor: ANONYMOUS,
  owner: {},
} as const
const UNKNOWN: Requester = { address: '', requestId: '' }

export class IssuerAudit {
  readonly #services: IssuerServices
  /** Of requests that the provider handles. */
  readonly #requesters = new WeakMap<IncomingMessage, Requester>()

  constructor(parts: IssuerServices) {
    this.#services = parts
  }

  attach(request: IncomingMessage, by: Requester): void {
    this.#requesters.set(request, by)
  }

  /** Records events of the token endpoint, and revocations of refresh tokens. */
  listen(provider: Provider): void {
    provider.on('grant.success', (context: KoaContextWithOIDC) => this.#tokenIssued(context))
    provider.on('grant.error', (context: KoaContextWithOIDC, error: Error) => this.#refused(context, error))
    provider.on('grant.revoked', (context: KoaContextWithOIDC) => {
      if (context.oidc.route === 'revocation') this.#refreshTokenRevoked(context)
    })
  }

  signedIn(by: Requester, account: Account, clientId: string): void {
    this.#enqueue(by, {
      operation: 'person.sign_in',
      target: '/auth/interaction',
      actor: accountActor(account),
      owner: ownerOf(account),
      detail: { client_id: clientId },
    })
  }

  signInRefused(
    by: Requester,
    { tenantId, workspaceId, accountId, clientId }: FailedSignIn,
    reason: SignInRefusal,
  ): void {
    const tooMany = reason === 'too_many'
    this.#recordThrottled(by, {
      operation: 'person.sign_in',
      target: '/auth/interaction',
      actor: ANONYMOUS,
      owner: { tenantId, workspaceId },
      outcome: 'denied',
      status: tooMany ? 429 : 401,
      code: REFUSAL_CODES[reason],
      detail: {
        ...(clientId !== undefined && { client_id: clientId }),
        ...(accountId !== undefined && { account_id: accountId }),
      },
    })
  }

  consent(by: Requester, account: Account, outcome: ConsentOutcome, request: ConsentRequest): void {
    const { clientId, resource, scope, workspaceId } = request
    const refused = { outcome: 'denied', status: 403, code: 'forbidden' } as const
    this.#enqueue(by, {
      operation: outcome === 'denied' ? 'consent.deny' : 'consent.allow',
      target: '/auth/interaction',
      actor: accountActor(account),
      owner: { ...ownerOf(account), ...(workspaceId !== undefined && { workspaceId }) },
      ...(outcome === 'forbidden' && refused),
      detail: { client_id: clientId, resource, scope },
    })
  }

  /** Access that a person took back from a client. @param target the page */
  grantRevoked(by: Requester, account: Account, grant: EndedGrant, target: string): void {
    const { id, clientId, resource, workspaceId } = grant
    this.#enqueue(by, {
      operation: 'grant.revoke',
      target,
      actor: accountActor(account),
      owner: { ...ownerOf(account), ...(workspaceId !== undefined && { workspaceId }) },
      detail: { client_id: clientId, resource, grant_id: id },
    })
  }

  /** An invitation that was accepted, or another password of an account that had one. */
  passwordSet(by: Requester, account: AcceptedAccount): void {
    const operation = account.hadPassword ? 'account.password_set' : 'account.accept'
    const target = `/v1/accounts/${account.id}`
    this.#enqueue(by, { operation, target, actor: accountActor(account), owner: ownerOf(account) })
  }

  /** A mail that was requested with an address of which the requester may know nothing; the address is not recorded. */
  userMailRequested(by: Requester, { tenantId, workspaceId }: WorkspaceRef, operation: string): void {
    const owner = { tenantId, workspaceId }
    this.#recordThrottled(by, { operation, target: USER_PAGES, actor: ANONYMOUS, owner, status: 200 })
  }

  /** A person who changed their own account, or created it. @param verb of the operation, such as `add_passkey` */
  personChanged(by: Requester, person: Account, verb: string): void {
    const noun = isUser(person) ? 'user' : 'account'
    const target = `/v1/${noun}s/${person.id}`
    this.#enqueue(by, {
      operation: `${noun}.${verb}`,
      target,
      actor: accountActor(person),
      owner: ownerOf(person),
    })
  }

  /** A client that registered itself, or tried to (RFC 7591). */
  registered(by: Requester, status: number, body: Readonly<Record<string, unknown>>): void {
    const { client_id: id, client_name: name, error } = body
    const failure = { outcome: 'failed', code: String(error) } as const
    this.#recordThrottled(by, {
      operation: 'oauth_client.register',
      target: '/auth/register',
      actor: ANONYMOUS,
      owner: {},
      status,
      ...(status < 400 ? { detail: { client_id: String(id), client_name: String(name) } } : failure),
    })
  }

  /** A client that its document describes: a new one, or one whose document has changed. */
  documentRead(by: Requester, id: string, name: string): void {
    const detail = { client_id: id, client_name: name }
    this.#recordThrottled(by, { ...DOCUMENT, status: 200, detail })
  }

  /** A document that does not describe a client, or cannot be read. */
  documentRefused(by: Requester, id: string): void {
    const refused = { outcome: 'failed', status: 400, code: 'invalid_client' } as const
    this.#recordThrottled(by, { ...DOCUMENT, ...refused, detail: { client_id: id } })
  }

  /** An access token that its client revoked. @param claims of the token, verified */
  tokenRevoked(context: KoaContextWithOIDC, claims: JWTPayload): void {
    const { sub: subject = '', jti: token_id = '' } = claims
    const detail = { subject, token_id, token_type: 'access_token' }
    this.#enqueueToken(context, 'token.revoke', ownerInClaims(claims), { detail })
  }

  #refreshTokenRevoked(context: KoaContextWithOIDC): void {
    const subject = context.oidc.entities.RefreshToken?.accountId ?? ''
    this.#inBackground(async () => {
      const detail = { subject, token_type: 'refresh_token' }
      this.#enqueueToken(context, 'token.revoke', await this.#ownerOfAccount(subject), { detail })
    })
  }

  #tokenIssued(context: KoaContextWithOIDC): void {
    const { entities, params } = context.oidc
    const token = entities.AccessToken ?? entities.ClientCredentials
    if (token === undefined) return
    const { jti, aud, scope, extra = {} } = token
    const subject = 'accountId' in token ? token.accountId : token.clientId
    this.#enqueueToken(context, 'token.issue', ownerInClaims(extra), {
      role: roleIn(extra),
      status: 200,
      detail: {
        subject: subject ?? '',
        grant_type: String(params?.['grant_type']),
        resource: String(aud),
        scope: scope ?? '',
        token_id: jti,
      },
    })
  }

  /** A refused request for a token, perhaps with a code or refresh token that was used before. */
  #refused(context: KoaContextWithOIDC, error: Error): void {
    const { error: code = 'server_error', statusCode: status = 500 } =
      error as Partial<errors.OIDCProviderError>
    const reused = error instanceof TokenReused
    const accountId = reused ? error.accountId : undefined
    const event = {
      operation: reused ? 'token.reuse' : 'token.issue',
      target: '/auth/token',
      actor: clientActor(context),
      outcome: reused || status === 401 ? 'denied' : 'failed',
      status,
      code,
      detail: {
        grant_type: String(context.oidc.params?.['grant_type'] ?? ''),
        ...(accountId !== undefined && { subject: accountId }),
      },
    } as const
    this.#inBackground(async () => {
      const owner =
        accountId === undefined ? await this.#ownerOfClient(context) : await this.#ownerOfAccount(accountId)
      this.#recordThrottled(this.requesterOf(context), { ...event, owner })
    })
  }

  async #ownerOfAccount(id: string): Promise<AuditOwner> {
    const account = await findPerson(this.#services, id)
    return account === undefined ? {} : ownerOf(account)
  }

  async #ownerOfClient({ oidc }: KoaContextWithOIDC): Promise<AuditOwner> {
    const id = oidc.client?.clientId
    if (id === undefined) return {}
    const { oauthClients, mcpServers } = this.#services
    const found = (await mcpServers.client(id)) ?? (await oauthClients.find(id))
    return found === undefined ? {} : ownerOf(found)
  }

  #enqueueToken(
    context: KoaContextWithOIDC,
    operation: string,
    owner: AuditOwner,
    { role = null, ...more }: { role?: Role | null; status?: number; detail: Record<string, string> },
  ): void {
    const target = context.oidc.route === 'token' ? '/auth/token' : '/auth/revoke'
    const actor = { ...clientActor(context), role }
    this.#enqueue(this.requesterOf(context), { operation, target, actor, owner, ...more })
  }

  #enqueue(by: Requester, event: Event): void {
    this.#services.audit.enqueue(auditEventOf(by, event))
  }

  /** Records an event that anonymous clients can cause. */
  #recordThrottled(by: Requester, event: Event): void {
    if (event.status === 429) this.#services.audit.countOnly(auditEventOf(by, event))
    else this.#services.audit.enqueueThrottled(auditEventOf(by, event))
  }

  /** The reply does not wait for the work. */
  #inBackground(work: () => Promise<void>): void {
    work().catch((error: unknown) => this.#services.log.error({ err: error }, 'audit entry failed'))
  }

  /** @param context of a request that the provider handles */
  requesterOf(context: KoaContextWithOIDC | undefined): Requester {
    return (context && this.#requesters.get(context.req)) ?? UNKNOWN
  }
}

function auditEventOf({ address, requestId }: Requester, event: Event): AuditEvent {
  const unstated = { outcome: 'done', status: 200, code: null, before: null, after: null } as const
  return { ...unstated, requestId, address, ...event }
}

const accountActor = ({ id, role }: Pick<Account, 'id' | 'role'>): AuditActor => ({
  subject: id,
  role,
  kind: 'person',
})

/** The client as actor if it exists, else anonymous. */
function clientActor({ oidc }: KoaContextWithOIDC): AuditActor {
  const id = oidc.client?.clientId
  return id === undefined ? ANONYMOUS : { subject: id, role: null, kind: 'client' }
}

const ownerOf = ({ tenantId, workspaceId }: TenantBounds): AuditOwner => ({
  tenantId: tenantId ?? undefined,
  workspaceId: workspaceId ?? undefined,
})

/** The tenant and workspace that the claims of a token name. */
function ownerInClaims({
  tenant_id: tenantId,
  workspace_id: workspaceId,
}: Readonly<Record<string, unknown>>): AuditOwner {
  return {
    ...(typeof tenantId === 'string' && { tenantId }),
    ...(typeof workspaceId === 'string' && { workspaceId }),
  }
}

function roleIn({ roles }: Readonly<Record<string, unknown>>): Role | null {
  const [role] = Array.isArray(roles) ? roles : []
  return EVERYBODY.find((known) => known === role) ?? null
}
