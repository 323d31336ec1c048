/** Decides which objects anon keys and users reach: by the settings `objects.public_read` and `objects.user` of the workspace. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { shortQuote } from '../../core/json.ts'
import { callersOf, requireUser } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { coversKey } from '../collections/rules/text-rules.ts'
import { readPublicAccess, type UserObjects } from '../tenants/public-access.ts'

/**
 * Checks that an anon key reads objects below the public prefixes only, and a user below those of the rules. Service keys pass.
 * @param prefix the key, or how the listed keys begin
 * @throws Problem `forbidden`
 */
export async function requireReadable(scope: WorkspaceScope, prefix: string): Promise<void> {
  if (scope.actor.role === 'anon') await requirePublic(scope, prefix)
  else await requireObjectRule(scope, 'read', prefix)
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
 * Checks that a rule allows the user to access an object. Other roles pass.
 * @throws Problem `forbidden`
 */
export async function requireObjectRule(
  scope: WorkspaceScope,
  right: keyof UserObjects,
  key: string,
): Promise<void> {
  if (scope.actor.role !== 'user') return
  const { user } = await readPublicAccess(scope)
  if (coversKey(user.objects[right] ?? [], requireUser(scope.actor), key)) return
  const setting = `objects.user.${right}`
  throw new Problem('forbidden', {
    detail: `${callersOf(scope.actor)} ${right} objects only below the prefixes in the setting ${setting} of the workspace. ${shortQuote(key)} is not below a prefix of this user.`,
  })
}
