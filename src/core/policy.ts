/** Roles, the two privilege domains, and which role a principal acts in on an operation. */

import { Problem } from './problem.ts'
import type { TenantId, WorkspaceId } from './tenant.ts'

export type Domain = 'structural_admin' | 'data_access'
type AdminRole = 'operator' | 'tenant_admin' | 'workspace_admin'
export type DataRole = 'service' | 'anon'
export type Role = AdminRole | DataRole

/** Role groups, widest last. An operation names one of them. */
export const OPERATORS = ['operator'] as const satisfies readonly Role[]
export const TENANT_ADMINS = ['operator', 'tenant_admin'] as const satisfies readonly Role[]
export const ADMINS = ['operator', 'tenant_admin', 'workspace_admin'] as const satisfies readonly Role[]
export const WRITERS = ['service'] as const satisfies readonly Role[]
export const READERS = ['service', 'anon'] as const satisfies readonly Role[]
/** Of both domains: for operations that reach nothing but their caller. */
export const EVERYBODY = [...ADMINS, ...READERS] as const

export function domainOf(role: Role): Domain {
  return role === 'service' || role === 'anon' ? 'data_access' : 'structural_admin'
}

/** Whether a role is strictly above another: an operator, then the admins of a tenant, of a workspace, then all others. */
export function outranks(role: Role, other: Role): boolean {
  const rank = (one: Role) => (ADMINS as readonly Role[]).indexOf(one)
  return rank(role) >= 0 && (rank(other) < 0 || rank(role) < rank(other))
}

/** A verified credential: who, of which tenant, in which roles. Made by `platform/auth` and by nobody else. */
export interface Principal {
  /** What was presented. */
  readonly kind: 'api_key' | 'token' | 'gateway'
  /** What was seen, in words for error texts: `a service API key ending …9f2c`. */
  readonly seen: string
  /** Subject for audit and logs: key id, client id or user id. */
  readonly subject: string
  readonly tenantId?: TenantId
  readonly workspaceId?: WorkspaceId
  readonly roles: readonly Role[]
  /** What it is narrowed to, within its roles (core/policy.ts); absent where it is not. */
  readonly scopes?: ReadonlySet<string>
  /** Requests a minute, where the key has its own limit. */
  readonly rateLimit?: number
  /** What the key says of itself, where it is one. */
  readonly key?: PresentedKey
}

interface PresentedKey {
  readonly id: string
  readonly kind: DataRole
  readonly last4: string
  /** RFC 3339; null where it does not end. */
  readonly expires_at: string | null
}

/** Who acts inside a scope. */
export interface Actor {
  readonly subject: string
  readonly role: Role
  /** Of a run: how many began one by the event of another before it, itself among them. */
  readonly hops?: number
}

/** The role in which a principal may run an operation with these roles; undefined where it may not. */
export function roleFor(principal: Principal, allowed: readonly Role[]): Role | undefined {
  return allowed.find((role) => principal.roles.includes(role))
}

/** Whether the principal has any role of the domain at all. */
export function inDomain(principal: Principal, domain: Domain | 'any'): boolean {
  return domain === 'any' || principal.roles.some((role) => domainOf(role) === domain)
}

const FORM = /^[a-z][a-z0-9_]*:(read|write)$/

/** `collections:read` of `collection.list`: the area is the plural of the noun, unless the operation names another. */
export function scopeOf(operation: string, area: string | undefined, reads: boolean): string {
  const noun = operation.split('.')[0] ?? ''
  const plural = noun.endsWith('s') ? noun : `${noun}s`
  return `${area ?? plural}:${reads ? 'read' : 'write'}`
}

export const isWriteScope = (scope: string): boolean => scope.endsWith(':write')

/**
 * What names narrow their holder to; undefined where none of them has the form of a scope of ours (`openid`). One that
 * is misspelt still narrows: it opens nothing.
 */
export function narrowing(names: readonly string[]): ReadonlySet<string> | undefined {
  const ours = names.filter((name) => FORM.test(name))
  return ours.length === 0 ? undefined : new Set(ours)
}

/**
 * @param scopes what the caller is narrowed to; undefined where it is not
 * @param needed undefined for what takes no narrowed caller at all
 * @throws Problem `insufficient_scope` with the challenge of RFC 6750 §3.1
 */
export function requireScope(scopes: ReadonlySet<string> | undefined, needed: string | undefined): void {
  if (scopes === undefined || (needed !== undefined && scopes.has(needed))) return
  const challenge = 'Bearer realm="tenon", error="insufficient_scope"'
  if (needed === undefined) {
    const detail = 'This takes a credential that no scope narrows.'
    throw new Problem('insufficient_scope', { detail, headers: { 'www-authenticate': challenge } })
  }
  throw new Problem('insufficient_scope', {
    detail: `This needs the scope ${needed}. The credential has ${[...scopes].join(', ')}.`,
    headers: { 'www-authenticate': `${challenge}, scope="${needed}"` },
    members: { scope: needed },
  })
}
