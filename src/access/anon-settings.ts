/**
 * A workspace's settings for anon keys: checks for collections, objects and events, and their problems. The row that is cached
 * has the rules for users as well, which user-settings.ts checks.
 */

import Type, { type Static } from 'typebox'
import { isPrefix } from '../core/object-key.ts'
import { Problem } from '../core/problem.ts'
import { sql } from '../infra/postgres/sql.ts'
import type { WorkspaceScope } from './scope.ts'
import { cached } from './scope-cache.ts'
import { prefixRules, topicRules, type UserRule } from './user-rules.ts'

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

/** @throws Problem `validation_failed` if a prefix is malformed */
export function checkPrefixes(prefixes: readonly string[]): void {
  const rule =
    'A prefix ends with a slash and does not begin with one; `.`, `..` and control characters are not taken.'
  const errors = prefixes.flatMap((prefix, index) => {
    const pointer = `/objects/public_read/${index}`
    return isPrefix(prefix) ? [] : [{ in: 'body', name: 'objects', pointer, detail: rule } as const]
  })
  const detail = 'objects.public_read has a prefix that is not valid.'
  if (errors.length > 0) throw new Problem('validation_failed', { detail, errors })
}

/** Rules by right; absent rights are closed. */
type RulesByRight = Readonly<Record<string, readonly UserRule[]>>

/** The settings of one workspace. */
export interface AnonSettings extends Anon {
  readonly publicRead: readonly string[]
  readonly user: { readonly objects: RulesByRight; readonly topics: RulesByRight }
}

interface Row {
  readonly anon: Partial<Anon>
  readonly public_read: string[]
  readonly user_objects: Record<string, string[]>
  readonly user_topics: Record<string, string[]>
}

/** Cache key of the settings. */
export const ANON_CACHE_KEY = 'anon'

/** The settings, cached for `INFRA_LIMITS.settingsCacheMs`. */
export function anonSettings(scope: WorkspaceScope): Promise<AnonSettings> {
  return cached(scope, ANON_CACHE_KEY, async () => {
    const row = await scope.row<Row>(sql`select anon, public_read, user_objects, user_topics from services`)
    const publicRead = row?.public_read ?? []
    const user = {
      objects: rulesOf(row?.user_objects ?? {}, prefixRules),
      topics: rulesOf(row?.user_topics ?? {}, topicRules),
    }
    return { value: { ...ANON_DEFAULTS, ...row?.anon, publicRead, user }, bytes: sizeOf(row) }
  })
}

const rulesOf = (stored: Row['user_objects'], read: (texts: readonly string[]) => UserRule[]): RulesByRight =>
  Object.fromEntries(Object.entries(stored).map(([right, texts]) => [right, read(texts)]))

/** Approximate: a parsed rule takes several times its text. */
const sizeOf = (row: Row | undefined) => JSON.stringify(row ?? '').length * 4

/**
 * Checks that an anon key reads objects below the public prefixes only. Other roles pass.
 * @param prefix the key, or how the listed keys begin
 * @throws Problem `forbidden`
 */
export async function requirePublic(scope: WorkspaceScope, prefix: string): Promise<void> {
  if (scope.actor.role !== 'anon') return
  const { objects, publicRead } = await anonSettings(scope)
  if (objects === 'none') {
    const detail = 'Anon keys may not read objects of this workspace: its setting anon.objects is "none".'
    throw new Problem('forbidden', { detail })
  }
  if (publicRead.some((allowed) => prefix.startsWith(allowed))) return
  const named = JSON.stringify(prefix.slice(0, 100))
  const detail = `Anon keys read only objects below the prefixes in the setting objects.public_read of the workspace; ${named} is not below any of them.`
  throw new Problem('forbidden', { detail })
}

/**
 * Checks that the workspace allows anon keys to subscribe to events. Other roles pass.
 * @throws Problem `forbidden`
 */
export async function requireEvents(scope: WorkspaceScope): Promise<void> {
  if (scope.actor.role !== 'anon' || (await anonSettings(scope)).events === 'workspace') return
  throw new Problem('forbidden', {
    detail: 'Anon keys may not subscribe in this workspace: its setting anon.events is "none".',
  })
}

/**
 * The problem of an anon key without a right on a collection.
 * @param isDefault true if the workspace's setting decides, not the declaration
 */
export function collectionForbidden({
  name,
  right,
  isDefault,
}: {
  name: string
  right: string
  isDefault: boolean
}): Problem {
  const reason = isDefault ? ': the workspace\'s setting anon.collections is "none"' : ''
  return new Problem('forbidden', {
    detail: `Anon keys may not ${right} documents of ${name}${reason}.`,
    hint: `The declaration of the collection can allow it: "access": {"anon": {"${right}": true}}.`,
  })
}
