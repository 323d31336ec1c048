/**
 * The settings with which a workspace opens data: `anon`, `objects` and `topics`, for anon keys, users and readers of images; and their values as
 * the checks of collections, objects and events read them.
 */

import Type, { type Static, type TProperties } from 'typebox'
import type { WorkspaceScope } from '../../access/scope.ts'
import { cached } from '../../access/scope-cache.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { prefixRules, type TextRule, topicRules } from '../collections/rules/text-rules.ts'
import { IMAGE_DEFAULTS, type ImageSettings } from './image-settings.ts'

/** Settings in requests of admins; absent members do not change. */
export const AnonInput = Type.Partial(
  Type.Object({
    collections: Type.Union([Type.Literal('read'), Type.Literal('none')], {
      description:
        'Collections that anon keys read besides those that `access.anon.read` of a declaration opens. `read`: undeclared collections and those whose declaration has no `access`; `none`: no others. Default: `none`.',
    }),
    objects: Type.Union([Type.Literal('none'), Type.Literal('public')], {
      description:
        'Objects that anon keys read. `public`: those below the prefixes of `objects.public_read`; `none`: no objects. Default: `none`.',
    }),
    events: Type.Union([Type.Literal('workspace'), Type.Literal('none')], {
      description:
        'Events that anon keys receive. `workspace`: published events and changes of their own workspace; `none`: no events. Default: `workspace`.',
    }),
  }),
  { additionalProperties: false },
)
export const Anon = Type.Required(AnonInput)
export type Anon = Static<typeof Anon>

/** Closed by default; the database policies have the same defaults (tenon.anon_workspace). */
export const ANON_DEFAULTS: Anon = { collections: 'none', objects: 'none', events: 'workspace' }

const PREFIXES_MAX = 100
export const PublicRead = Type.Array(
  Type.String({
    maxLength: 1_024,
    description: 'Prefix of object keys, which ends with a slash, such as `public/`.',
  }),
  {
    maxItems: PREFIXES_MAX,
    uniqueItems: true,
    description: 'Prefixes of the object keys that anon keys may read.',
  },
)

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

/** Rules by right; absent rights are closed. */
type RulesByRight = Readonly<Record<string, readonly TextRule[]>>

/** Collections, objects and topics that one workspace opens. */
export interface PublicAccess extends Anon {
  readonly publicRead: readonly string[]
  readonly images: ImageSettings
  readonly user: { readonly objects: RulesByRight; readonly topics: RulesByRight }
}

interface Row {
  readonly anon: Partial<Anon>
  readonly public_read: string[]
  readonly user_objects: Record<string, string[]>
  readonly user_topics: Record<string, string[]>
  readonly image_settings: Partial<ImageSettings>
}

/** Cache key of {@link readPublicAccess}. */
export const PUBLIC_ACCESS_KEY = 'public-access'

/** Cached for `INFRA_LIMITS.settingsCacheMs`. */
export function readPublicAccess(scope: WorkspaceScope): Promise<PublicAccess> {
  return cached(scope, PUBLIC_ACCESS_KEY, async () => {
    const row = await scope.row<Row>(
      sql`select anon, public_read, user_objects, user_topics, image_settings from services`,
    )
    const images = { ...IMAGE_DEFAULTS, ...row?.image_settings }
    const publicRead = row?.public_read ?? []
    const user = {
      objects: rulesOf(row?.user_objects ?? {}, prefixRules),
      topics: rulesOf(row?.user_topics ?? {}, topicRules),
    }
    return { value: { ...ANON_DEFAULTS, ...row?.anon, publicRead, images, user }, bytes: sizeOf(row) }
  })
}

const rulesOf = (stored: Row['user_objects'], read: (texts: readonly string[]) => TextRule[]): RulesByRight =>
  Object.fromEntries(Object.entries(stored).map(([right, texts]) => [right, read(texts)]))

/** Approximate: a parsed rule takes several times its text. */
const sizeOf = (row: Row | undefined) => JSON.stringify(row ?? '').length * 4
