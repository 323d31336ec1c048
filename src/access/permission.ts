/**
 * Permissions to run an operation. A request gets one before its body is read, and confirms it with its input, since some inputs
 * need another scope. A scope opens for a permission alone, so nothing checks again.
 */

import type { AnyOperation } from '../core/operation.ts'
import { type Actor, inDomain, type Principal, type Role, requireScope, roleFor } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { payloadsHidden, seesPayloads } from './payload-access.ts'
import { requireRecentProof } from './recent-proof.ts'

export class Permission {
  readonly operation: AnyOperation
  readonly principal: Principal
  /** The role in which the principal may run the operation; undefined if any credential will do, even one without a role. */
  readonly role: Role | undefined

  private constructor(operation: AnyOperation, principal: Principal, role: Role | undefined) {
    this.operation = operation
    this.principal = principal
    this.role = role
  }

  /** Before the input is read. @throws Problem 403 if domain, role or scope does not fit */
  static require(operation: AnyOperation, principal: Principal): Permission {
    if (operation.domain === 'any') return new Permission(operation, principal, undefined)
    const role = roleFor(principal, operation.roles)
    if (role === undefined) throw roleProblem(operation, principal)
    requireScope(principal.scopes, operation.requiredScope)
    // It decrypts what it is sent, so there is no record that says who has started it.
    if (operation.reveals !== undefined && principal.seesPayloads !== true) throw payloadsHidden()
    return new Permission(operation, principal, role)
  }

  /** With the parsed input. @throws Problem `insufficient_scope`, `insufficient_user_authentication` */
  confirm(input: unknown): void {
    if (this.role !== undefined) requireConditionalScopes(this.operation, this.principal, input)
    requireRecentProof(this.operation, this.principal, input)
  }

  /** For a reply that shows payloads by the right to see them, while it is sent. @throws Problem `payloads_hidden` */
  confirmPayloads(): void {
    const { role, principal } = this
    if (role === undefined || !seesPayloads({ ...principal, role, credential: principal }))
      throw payloadsHidden()
  }
}

/**
 * The checks of a {@link Permission} for code of a function, which acts in a scope without a credential.
 * @throws Problem `forbidden`, `insufficient_scope`
 */
export function permitActor(operation: AnyOperation, actor: Actor, input: unknown): void {
  if (!operation.roles.includes(actor.role)) throw roleMissing(operation)
  requireScope(actor.scopes, operation.requiredScope)
  requireConditionalScopes(operation, actor, input)
}

function requireConditionalScopes(
  { conditionalScopes = [] }: AnyOperation,
  { scopes }: Pick<Principal, 'scopes'>,
  input: unknown,
): void {
  for (const { scope, when } of conditionalScopes) if (when(input)) requireScope(scopes, scope)
}

function roleProblem(operation: AnyOperation, principal: Principal): Problem {
  const { domain } = operation
  if (inDomain(principal, domain)) return roleMissing(operation)
  return new Problem('privilege_domain_mismatch', {
    detail: `This route is of the domain ${domain}: send ${credentialsFor(operation)}. You sent ${principal.seen}.`,
    members: { domain },
  })
}

const roleMissing = ({ name, roles }: AnyOperation) =>
  new Problem('forbidden', { detail: `${name} needs the role ${roles.join(' or ')}.` })

/** Describes the credentials that an operation takes. */
function credentialsFor({ domain, roles }: AnyOperation): string {
  if (domain === 'data_access')
    return 'an API key (`apikey: svc_…`) or a token that names a tenant and a workspace'
  return `a token with the role ${roles.join(' or ')} (\`Authorization: Bearer …\`)`
}
