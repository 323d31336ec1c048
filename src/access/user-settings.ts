/** A workspace's settings for users: the rules on objects and topics, and the problems of a user whom no rule allows. */

import Type, { type Static, type TProperties } from 'typebox'
import { CORE_LIMITS } from '../core/limits.ts'
import type { EndUser } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { anonSettings } from './anon-settings.ts'
import type { WorkspaceScope } from './scope.ts'
import { coversKey, coversTopic } from './user-rules.ts'

const RULES_MAX = 100
/** Longer than a topic, for the names of variables. */
const TOPIC_RULE_CHARS_MAX = 400

const Prefixes = (may: string) =>
  Type.Array(Type.String({ maxLength: CORE_LIMITS.objectKeyBytesMax }), {
    maxItems: RULES_MAX,
    uniqueItems: true,
    description: `Prefixes of the object keys that users may ${may}, each ending with a slash: \`avatars/{user.id}/\`.`,
  })
const Topics = (may: string) =>
  Type.Array(Type.String({ maxLength: TOPIC_RULE_CHARS_MAX }), {
    maxItems: RULES_MAX,
    uniqueItems: true,
    description: `Topics that users may ${may}: \`lobby\`, or \`chat.{user.id}.*\` for all topics below \`chat.{user.id}\`.`,
  })

const Changes = <P extends TProperties>(properties: P) =>
  Type.Partial(Type.Object(properties), { additionalProperties: false })

const OBJECT_RULES = { read: Prefixes('read'), write: Prefixes('write'), delete: Prefixes('delete') }
const TOPIC_RULES = { subscribe: Topics('subscribe to'), publish: Topics('publish to') }

/** Rules in requests of admins; absent rights do not change. */
export const UserObjectsInput = Changes(OBJECT_RULES)
export const UserTopicsInput = Changes(TOPIC_RULES)
export const UserObjects = Type.Object(OBJECT_RULES)
export const UserTopics = Type.Object(TOPIC_RULES)
export type UserObjects = Static<typeof UserObjects>
export type UserTopics = Static<typeof UserTopics>

export const NO_OBJECTS: UserObjects = { read: [], write: [], delete: [] }
export const NO_TOPICS: UserTopics = { subscribe: [], publish: [] }

/**
 * Checks that a rule allows the user to access an object. Other roles pass.
 * @param key the key, or how the listed keys begin
 * @throws Problem `forbidden`
 */
export async function requireObjectRule(
  scope: WorkspaceScope,
  right: keyof UserObjects,
  key: string,
): Promise<void> {
  if (scope.actor.role !== 'user') return
  const { user } = await anonSettings(scope)
  if (coversKey(user.objects[right] ?? [], userOf(scope), key)) return
  const setting = `objects.user.${right}`
  throw new Problem('forbidden', {
    detail: `Users ${right} objects only below the prefixes in the setting ${setting} of the workspace. ${named(key)} is not below a prefix of this user.`,
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
    detail: `Users ${right} only to the topics in the setting ${setting} of the workspace. ${named(refused)} is not a topic of this user.`,
  })
}

/** The topics of a user that rules allow now. One that ends with `.*` is allowed if all topics below it are. */
export async function allowedTopics(
  scope: WorkspaceScope,
  right: keyof UserTopics,
  topics: readonly string[],
): Promise<readonly string[]> {
  const { user } = await anonSettings(scope)
  const rules = user.topics[right] ?? []
  return topics.filter((topic) => coversTopic(rules, userOf(scope), topic))
}

function userOf({ actor: { user } }: WorkspaceScope): EndUser {
  if (user === undefined) throw new TypeError('the role user needs a user')
  return user
}

const named = (text: string) => JSON.stringify(text.slice(0, 100))
