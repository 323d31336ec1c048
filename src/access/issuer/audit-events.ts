/** Records in the audit log what happens at the issuer: sign-ins, consents, passwords, clients and tokens. */

import type { IncomingMessage } from 'node:http'
import type { JWTPayload } from 'jose'
import type { KoaContextWithOIDC, Provider } from 'oidc-provider'
import { EVERYBODY, type Role } from '../../core/policy.ts'
import type { Log } from '../../infra/log.ts'
import type { Audit } from '../audit/audit.ts'
import type { AuditActor, AuditEvent, AuditOwner } from '../audit/entry.ts'
import type { McpServerRegistry } from '../authentication/mcp-server-registry.ts'
import type { AcceptedAccount, Account, AccountsStore, TenantBounds } from './accounts-store.ts'
import { TokenReused } from './issuer-state.ts'
import type { OAuthClients } from './oauth-clients-store.ts'

/** Where a request came from, and its id in the log. */
export interface Requester {
  readonly address: string
  readonly requestId: string
}

/** How a request for consent ended; `forbidden`: it was not the person's to allow. */
export type ConsentOutcome = 'allowed' | 'denied' | 'forbidden'

/** A sign-in that failed, as far as it is known where. What was typed is not recorded: it may be a password. */
interface FailedSignIn {
  readonly tenantId: string | undefined
  readonly accountId: string | undefined
  /** Absent on the page where people change their passwords. */
  readonly clientId: string | undefined
}

interface ConsentRequest {
  readonly clientId: string
  readonly resource: string
  readonly scope: string
  /** Of the hosted MCP server, if it is for one. */
  readonly workspaceId: string | undefined
}

interface RecordsParts {
  readonly audit: Audit
  readonly clients: OAuthClients
  readonly hosted: McpServerRegistry
  readonly people: AccountsStore
  readonly log: Log
}

type Event = Pick<AuditEvent, 'operation' | 'target' | 'actor' | 'owner'> &
  Partial<Pick<AuditEvent, 'outcome' | 'status' | 'code' | 'detail'>>

const ANONYMOUS: AuditActor = { subject: null, role: null, kind: 'nobody' }
const UNKNOWN: Requester = { address: '', requestId: '' }

export class IssuerAudit {
  readonly #parts: RecordsParts
  /** Of requests that the provider answers by itself. */
  readonly #requesters = new WeakMap<IncomingMessage, Requester>()

  constructor(parts: RecordsParts) {
    this.#parts = parts
  }

  attach(request: IncomingMessage, by: Requester): void {
    this.#requesters.set(request, by)
  }

  /** Records what the provider tells of its token endpoint and of refresh tokens that are revoked. */
  listen(provider: Provider): void {
    provider.on('grant.success', (context: KoaContextWithOIDC) => this.#tokenIssued(context))
    provider.on('grant.error', (context: KoaContextWithOIDC, error: Error) => this.#refused(context, error))
    provider.on('grant.revoked', (context: KoaContextWithOIDC) => {
      if (context.oidc.route === 'revocation') this.#refreshTokenRevoked(context)
    })
  }

  signedIn(by: Requester, person: Account, clientId: string): void {
    const event = {
      operation: 'person.sign_in',
      target: '/auth/interaction',
      detail: { client_id: clientId },
    }
    this.#note(by, { ...event, actor: personActor(person), owner: ownerOf(person) })
  }

  signInRefused(
    by: Requester,
    { tenantId, accountId, clientId }: FailedSignIn,
    why: 'wrong' | 'too_many',
  ): void {
    const deed = auditEventOf(by, {
      operation: 'person.sign_in',
      target: '/auth/interaction',
      actor: ANONYMOUS,
      owner: { tenantId },
      outcome: 'denied',
      status: why === 'wrong' ? 401 : 429,
      code: why === 'wrong' ? 'password_wrong' : 'too_many_attempts',
      detail: {
        ...(clientId !== undefined && { client_id: clientId }),
        ...(accountId !== undefined && { account_id: accountId }),
      },
    })
    if (why === 'wrong') this.#parts.audit.enqueueThrottled(deed)
    else this.#parts.audit.countOnly(deed)
  }

  consent(by: Requester, person: Account, verdict: ConsentOutcome, asked: ConsentRequest): void {
    const { clientId, resource, scope, workspaceId } = asked
    const refused = { outcome: 'denied', status: 403, code: 'forbidden' } as const
    this.#note(by, {
      operation: verdict === 'denied' ? 'consent.deny' : 'consent.allow',
      target: '/auth/interaction',
      actor: personActor(person),
      owner: { ...ownerOf(person), ...(workspaceId !== undefined && { workspaceId }) },
      ...(verdict === 'forbidden' && refused),
      detail: { client_id: clientId, resource, scope },
    })
  }

  /** An invitation that was accepted, or another password of an account that had one. */
  passwordSet(by: Requester, account: AcceptedAccount): void {
    const operation = account.hadPassword ? 'account.password_set' : 'account.accept'
    const target = `/v1/accounts/${account.id}`
    this.#note(by, { operation, target, actor: personActor(account), owner: ownerOf(account) })
  }

  /** A client that registered itself, or tried to (RFC 7591). */
  registered(by: Requester, status: number, body: Readonly<Record<string, unknown>>): void {
    const { client_id: id, client_name: name, error } = body
    const failed = { outcome: 'failed', code: String(error) } as const
    const made = { detail: { client_id: String(id), client_name: String(name) } }
    const event = {
      operation: 'oauth_client.register',
      target: '/auth/register',
      actor: ANONYMOUS,
      owner: {},
    }
    const deed = auditEventOf(by, { ...event, status, ...(status < 400 ? made : failed) })
    if (status === 429) this.#parts.audit.countOnly(deed)
    else this.#parts.audit.enqueueThrottled(deed)
  }

  /** An access token that its client revoked. @param claims of the token, verified */
  tokenRevoked(context: KoaContextWithOIDC, claims: JWTPayload): void {
    const { sub = '', jti = '' } = claims
    const detail = { subject: sub, token_id: jti, token_type: 'access_token' }
    this.#noteToken(context, 'token.revoke', ownerInClaims(claims), { detail })
  }

  #refreshTokenRevoked(context: KoaContextWithOIDC): void {
    const accountId = context.oidc.entities.RefreshToken?.accountId ?? ''
    const detail = { subject: accountId, token_type: 'refresh_token' }
    this.#later(async () =>
      this.#noteToken(context, 'token.revoke', await this.#ownerOfAccount(accountId), { detail }),
    )
  }

  #tokenIssued(context: KoaContextWithOIDC): void {
    const { entities, params } = context.oidc
    const token = entities.AccessToken ?? entities.ClientCredentials
    if (token === undefined) return
    const { jti, aud, scope, extra = {} } = token
    const subject = 'accountId' in token ? token.accountId : token.clientId
    this.#noteToken(context, 'token.issue', ownerInClaims(extra), {
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

  /** A request for a token that was refused; among them, codes and refresh tokens that were used twice. */
  #refused(context: KoaContextWithOIDC, error: Error): void {
    const { error: code = 'server_error', statusCode: status = 500 } = error as OAuthError
    const reused = error instanceof TokenReused
    const event = {
      operation: reused ? 'token.reuse' : 'token.issue',
      target: '/auth/token',
      actor: clientActor(context),
      outcome: reused || status === 401 ? 'denied' : 'failed',
      status,
      code,
      detail: {
        grant_type: String(context.oidc.params?.['grant_type'] ?? ''),
        ...(reused && error.accountId !== undefined && { subject: error.accountId }),
      },
    } as const
    this.#later(async () => {
      const account = reused && error.accountId !== undefined ? error.accountId : undefined
      const owner =
        account === undefined ? await this.#ownerOfClient(context) : await this.#ownerOfAccount(account)
      this.#parts.audit.enqueueThrottled(auditEventOf(this.#requesterOf(context), { ...event, owner }))
    })
  }

  async #ownerOfAccount(id: string): Promise<AuditOwner> {
    const person = await this.#parts.people.find(id)
    return person === undefined ? {} : ownerOf(person)
  }

  async #ownerOfClient({ oidc }: KoaContextWithOIDC): Promise<AuditOwner> {
    const id = oidc.client?.clientId
    if (id === undefined) return {}
    const { clients, hosted } = this.#parts
    const found = (await hosted.client(id)) ?? (await clients.find(id))
    return found === undefined ? {} : ownerOf(found)
  }

  #noteToken(
    context: KoaContextWithOIDC,
    operation: string,
    owner: AuditOwner,
    { role = null, ...more }: { role?: Role | null; status?: number; detail: Record<string, string> },
  ): void {
    const target = context.oidc.route === 'token' ? '/auth/token' : '/auth/revoke'
    const actor = { ...clientActor(context), role }
    this.#note(this.#requesterOf(context), { operation, target, actor, owner, ...more })
  }

  #note(by: Requester, event: Event): void {
    this.#parts.audit.enqueue(auditEventOf(by, event))
  }

  /** The reply does not wait for it. */
  #later(work: () => Promise<void>): void {
    work().catch((error: unknown) => this.#parts.log.error({ err: error }, 'an audit entry was not made'))
  }

  #requesterOf(context: KoaContextWithOIDC): Requester {
    return this.#requesters.get(context.req) ?? UNKNOWN
  }
}

/** Of an error of the provider. */
interface OAuthError {
  readonly error?: string
  readonly statusCode?: number
}

function auditEventOf({ address, requestId }: Requester, event: Event): AuditEvent {
  const unstated = { outcome: 'done', status: 200, code: null, before: null, after: null } as const
  return { ...unstated, requestId, address, ...event }
}

const personActor = ({ id, role }: Pick<Account, 'id' | 'role'>): AuditActor => ({
  subject: id,
  role,
  kind: 'person',
})

/** A client that the platform knows; one that does not exist is nobody, whatever it calls itself. */
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
