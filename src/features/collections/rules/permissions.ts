/** Finds the permissions of a caller in a collection, from its declaration and the settings of its workspace, and applies them. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { type Actor, callersOf, isPublicRole } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { PublicAccess } from '../../tenants/public-access.ts'
import { evaluate } from '../query/evaluate.ts'
import { ALL, type Filter, NONE } from '../query/filter.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Stored, valueAt } from '../store.ts'
import type { Permission, Permissions, Readers, Right } from './access.ts'
import { bindRule } from './bind-rule.ts'

/** For service keys and the platform itself. */
export const ALL_RIGHTS: Permissions = {
  read: true,
  create: true,
  update: true,
  delete: true,
  aggregate: true,
}
const NO_PERMISSION: Permissions = {
  read: false,
  create: false,
  update: false,
  delete: false,
  aggregate: false,
}

/** Keys of services and admins are not restricted. Users have what the declaration grants, anon keys also what the workspace's settings do. */
export function permissionsOf(
  { role, user, lookups }: Pick<Actor, 'role' | 'user' | 'lookups'>,
  declared: Declaration | undefined,
  { collections }: Pick<PublicAccess, 'collections'>,
): Permissions {
  if (!isPublicRole(role)) return ALL_RIGHTS
  const usual = role === 'anon' ? { ...NO_PERMISSION, read: collections === 'read' } : NO_PERMISSION
  if (declared === undefined) return usual
  const caller = { user, lookups, now: new Date() }
  const granted = Object.entries(declared.rules[role]).map(([right, rule]) => [
    right,
    typeof rule === 'boolean' ? rule : simplified(bindRule(rule, caller, declared)),
  ])
  return { ...usual, ...Object.fromEntries(granted) }
}

/** The public roles that may read some documents of a collection. */
export function readersOf(
  declared: Declaration | undefined,
  { collections }: Pick<PublicAccess, 'collections'>,
): Readers {
  const { anon, user } = declared?.rules ?? { anon: {}, user: {} }
  return { anon: (anon.read ?? collections === 'read') !== false, user: (user.read ?? false) !== false }
}

/** Folds groups whose result depends neither on the document nor on the one before. */
function simplified(filter: Filter): Permission {
  if (filter.kind === 'unknown') return false
  if (!('of' in filter)) return filter
  const deciding = filter.kind === 'any'
  const parts = filter.of.map(simplified)
  if (parts.includes(deciding)) return deciding
  const open = parts.filter((part) => typeof part !== 'boolean')
  const [only, ...more] = open
  if (only === undefined) return !deciding
  return more.length === 0 ? only : { kind: filter.kind, of: open }
}

/**
 * Compiles a permission for a store. A rule that does not compile, since a value of the caller has another type than a system
 * field, admits no document.
 */
export function compilePermission<T>(permission: Permission, compile: (filter: Filter) => T): T {
  if (typeof permission === 'boolean') return compile(permission ? ALL : NONE)
  try {
    return compile(permission)
  } catch (error) {
    if (error instanceof Problem) return compile(NONE)
    throw error
  }
}

/** True if the permission admits the document. */
export const admits = (permission: Permission, document: Stored): boolean =>
  typeof permission === 'boolean' ? permission : evaluate(permission, (path) => valueAt(document, path))

/** True if the permission admits the document whatever the result of the update is: a comparison with `$old` may fail. */
export const admitsForSure = (permission: Permission, document: Stored): boolean =>
  admits(typeof permission === 'boolean' ? permission : withoutDeferred(permission), document)

function withoutDeferred(filter: Filter): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map(withoutDeferred) }
  return filter.kind === 'deferred' ? NONE : filter
}

/**
 * Refuses a caller to whom a right is closed for every document. The database enforces the same; this check gives a reason.
 * @throws Problem `forbidden`
 */
export function requireCollectionRights(
  scope: WorkspaceScope,
  { name, declared, permissions }: { name: string; declared?: Declaration; permissions: Permissions },
  rights: readonly Right[],
): void {
  const right = rights.find((one) => permissions[one] === false)
  if (right === undefined) return
  if (scope.actor.role === 'anon') {
    const isDefault = right === 'read' && declared?.rules.anon.read === undefined
    const reason = isDefault ? ': the workspace\'s setting anon.collections is "none"' : ''
    throw new Problem('forbidden', {
      detail: `${callersOf(scope.actor)} may not ${right} documents of ${name}${reason}.`,
      hint: `The declaration of the collection can allow it: "access": {"anon": {"${right}": true}}.`,
    })
  }
  const isDeclared = declared?.rules.user[right] !== undefined
  throw new Problem('forbidden', {
    detail: isDeclared
      ? `The rule access.user.${right} of ${name} gives you no document.`
      : `${callersOf(scope.actor)} may not ${right} documents of ${name}.`,
    hint: `The declaration of the collection can allow it: "access": {"user": {"${right}": …}}.`,
  })
}

/** The permissions of an update, whose rule may compare the result with the document before. */
export function updateOf(
  { role, user, lookups }: Pick<Actor, 'role' | 'user' | 'lookups'>,
  { declared, permissions }: { declared?: Declaration; permissions: Permissions },
  old: Stored,
): Permissions {
  const rule = isPublicRole(role) ? declared?.rules[role].update : undefined
  if (declared === undefined || typeof rule !== 'object') return permissions
  const caller = { user, lookups, now: new Date(), old }
  return { ...permissions, update: simplified(bindRule(rule, caller, declared)) }
}

/** @throws Problem `forbidden` unless the rule admits the document */
export function requireAdmitted(
  { actor }: Pick<WorkspaceScope, 'actor'>,
  { name, permissions }: { name: string; permissions: Permissions },
  right: Right,
  document: Stored,
): void {
  if (admits(permissions[right], document)) return
  throw new Problem('forbidden', {
    detail: `The rule access.${actor.role}.${right} of ${name} does not admit this document.`,
  })
}
