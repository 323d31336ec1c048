/** Decides to which topics anon keys and users subscribe and publish: by the settings `anon.events` and `topics.user` of the workspace. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { shortQuote } from '../../core/json.ts'
import { callersOf, requireUser } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { coversTopic } from '../collections/rules/text-rules.ts'
import { readPublicAccess, type UserTopics } from '../tenants/public-access.ts'

/**
 * Checks that the workspace allows anon keys to subscribe to events. Other roles pass.
 * @throws Problem `forbidden`
 */
export async function requireEvents(scope: WorkspaceScope): Promise<void> {
  if (scope.actor.role !== 'anon' || (await readPublicAccess(scope)).events === 'workspace') return
  throw new Problem('forbidden', {
    detail: `${callersOf(scope.actor)} may not subscribe in this workspace: its setting anon.events is "none".`,
  })
}

/**
 * Checks that rules allow the user each of the topics. Other roles pass.
 * @throws Problem `forbidden`
 */
export async function requireTopicRules(
  scope: WorkspaceScope,
  right: keyof UserTopics,
  topics: readonly string[],
): Promise<void> {
  if (scope.actor.role !== 'user') return
  const allowed = await allowedTopics(scope, right, topics)
  const refused = topics.find((topic) => !allowed.includes(topic))
  if (refused === undefined) return
  const setting = `topics.user.${right}`
  throw new Problem('forbidden', {
    detail: `${callersOf(scope.actor)} ${right} only to the topics in the setting ${setting} of the workspace. ${shortQuote(refused)} is not a topic of this user.`,
  })
}

/** The topics of a user that rules allow now. One that ends with `.*` is allowed if all topics below it are. */
export async function allowedTopics(
  scope: WorkspaceScope,
  right: keyof UserTopics,
  topics: readonly string[],
): Promise<readonly string[]> {
  const { user } = await readPublicAccess(scope)
  const rules = user.topics[right] ?? []
  return topics.filter((topic) => coversTopic(rules, requireUser(scope.actor), topic))
}
