/** Decides which objects a caller reaches: anon keys and users by settings of the workspace, storage keys by their actions and prefixes. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { shortQuote } from '../../core/json.ts'
import { type Actor, callersOf, requireUser, type StorageAction } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { coversKey } from '../collections/rules/text-rules.ts'
import { readPublicAccess, type UserObjects } from '../tenants/public-access.ts'

/**
 * Checks that an anon key reads objects below the public prefixes only, a user below those of the rules, and a storage key below its
 * own. Service keys pass.
 * @param prefix the key, or how the listed keys begin
 * @param action of a storage key
 * @throws Problem `forbidden`
 */
export async function requireReadable(
  scope: WorkspaceScope,
  prefix: string,
  action: 'read' | 'list' = 'read',
): Promise<void> {
  requireGrant(scope.actor, action, prefix)
  if (scope.actor.role === 'anon') await requirePublic(scope, prefix)
  else await requireUserRule(scope, 'read', prefix)
}

/**
 * Checks that a storage key has an action. Callers without one pass.
 * @param key or a prefix; absent for the bucket itself
 * @throws Problem `forbidden`
 */
export function requireGrant({ storage }: Actor, action: StorageAction, key?: string): void {
  if (storage === undefined) return
  const { actions, prefixes } = storage
  if (!actions.includes(action) && !actions.includes('admin'))
    throw new Problem('forbidden', {
      detail: `The storage key may not ${action}: its actions are ${actions.join(', ')}.`,
    })
  if (key === undefined || prefixes === null || prefixes.some((prefix) => key.startsWith(prefix))) return
  throw new Problem('forbidden', {
    detail: `The storage key reaches only keys below ${prefixes.join(', ')}; ${shortQuote(key)} is not below any of them.`,
  })
}

/** True if {@link requireReadable} lets the caller read an object. */
export async function mayRead(scope: WorkspaceScope, key: string): Promise<boolean> {
  return requireReadable(scope, key).then(
    () => true,
    (error: unknown) => {
      if (error instanceof Problem && error.code === 'forbidden') return false
      throw error
    },
  )
}

async function requirePublic(scope: WorkspaceScope, prefix: string): Promise<void> {
  const { objects, publicRead } = await readPublicAccess(scope)
  const callers = callersOf(scope.actor)
  if (objects === 'none') {
    const detail = `${callers} may not read objects of this workspace: its setting anon.objects is "none".`
    throw new Problem('forbidden', { detail })
  }
  if (publicRead.some((allowed) => prefix.startsWith(allowed))) return
  const detail = `${callers} read only objects below the prefixes in the setting objects.public_read of the workspace; ${shortQuote(prefix)} is not below any of them.`
  throw new Problem('forbidden', { detail })
}

/**
 * Checks that a rule allows the user to change an object, or a storage key its actions and prefixes. Other callers pass.
 * @throws Problem `forbidden`
 */
export async function requireObjectRule(
  scope: WorkspaceScope,
  right: 'write' | 'delete',
  key: string,
): Promise<void> {
  requireGrant(scope.actor, 'write', key)
  await requireUserRule(scope, right, key)
}

async function requireUserRule(scope: WorkspaceScope, right: keyof UserObjects, key: string): Promise<void> {
  if (scope.actor.role !== 'user') return
  const { user } = await readPublicAccess(scope)
  if (coversKey(user.objects[right] ?? [], requireUser(scope.actor), key)) return
  const setting = `objects.user.${right}`
  throw new Problem('forbidden', {
    detail: `${callersOf(scope.actor)} ${right} objects only below the prefixes in the setting ${setting} of the workspace. ${shortQuote(key)} is not below a prefix of this user.`,
  })
}
