/** A workspace's settings for anon keys: how they apply to collections, objects and events, and the refusals. */

import Type, { type Static } from 'typebox'
import { isPrefix } from '../core/object-key.ts'
import { Problem } from '../core/problem.ts'
import { sql } from '../infra/postgres/sql.ts'
import type { WorkspaceScope } from './scope.ts'
import { memo } from './scope-cache.ts'

/** Settings as an admin sends them; absent members stay as they are. */
export const AnonInput = Type.Partial(
  Type.Object({
    collections: Type.Union([Type.Literal('read'), Type.Literal('none')], {
      description:
        'Whether anon keys read collections that do not say so themselves (`access.anon.read` of their declaration).',
    }),
    objects: Type.Union([Type.Literal('none'), Type.Literal('public')], {
      description: '`public`: anon keys read objects below the prefixes of `objects.public_read`.',
    }),
    events: Type.Union([Type.Literal('workspace'), Type.Literal('none')], {
      description: '`workspace`: anon keys hear what their own workspace publishes and changes.',
    }),
  }),
  { additionalProperties: false },
)
export const Anon = Type.Required(AnonInput)
export type Anon = Static<typeof Anon>

/** Policies of the database have the same defaults (tenon.anon_workspace). */
export const ANON_DEFAULTS: Anon = { collections: 'read', objects: 'none', events: 'workspace' }

const PREFIXES_MAX = 100
export const PublicRead = Type.Array(
  Type.String({ maxLength: 1_024, description: 'How keys begin; it ends with a slash: `public/`.' }),
  { maxItems: PREFIXES_MAX, uniqueItems: true, description: 'Prefixes of keys that anon keys may read.' },
)

/** @throws Problem `validation_failed` if a prefix could open other keys than it says */
export function checkPrefixes(prefixes: readonly string[]): void {
  const errors = prefixes.flatMap((prefix, index) => {
    const pointer = `/objects/public_read/${index}`
    const detail =
      'A prefix ends with a slash and does not begin with one; `.`, `..` and control characters are not taken.'
    return isPrefix(prefix) ? [] : [{ in: 'body' as const, name: 'objects', pointer, detail }]
  })
  if (errors.length > 0)
    throw new Problem('validation_failed', {
      detail: 'objects.public_read has a prefix that is not valid.',
      errors,
    })
}

/** The settings of one workspace. */
export interface AnonSettings extends Anon {
  readonly publicRead: readonly string[]
}

/** The key under which a node remembers the settings of a workspace. */
export const ANON_CACHE_KEY = 'anon'

/** The settings as of a few seconds ago (`LIMITS.memoMs`). */
export function anonSettings(scope: WorkspaceScope): Promise<AnonSettings> {
  return memo(scope, ANON_CACHE_KEY, async () => {
    const row = await scope.row<{ anon: Partial<Anon>; public_read: string[] }>(
      sql`select anon, public_read from services`,
    )
    const publicRead = row?.public_read ?? []
    return { value: { ...ANON_DEFAULTS, ...row?.anon, publicRead }, bytes: publicRead.join().length }
  })
}

/**
 * Refuses an anon key that reads objects outside the prefixes that the workspace has opened. Other roles pass.
 * @param prefix the key, or how the listed keys begin
 * @throws Problem `forbidden`
 */
export async function requirePublic(scope: WorkspaceScope, prefix: string): Promise<void> {
  if (scope.actor.role !== 'anon') return
  const { objects, publicRead } = await anonSettings(scope)
  const hint = settingHint(scope, { anon: { objects: 'public' }, objects: { public_read: ['public/'] } })
  if (objects === 'none') {
    const detail = 'Anon keys may not read objects of this workspace: its setting anon.objects is "none".'
    throw new Problem('forbidden', { detail, hint })
  }
  if (publicRead.some((opened) => prefix.startsWith(opened))) return
  const named = JSON.stringify(prefix.slice(0, 100))
  const detail = `Anon keys read objects below the prefixes in the workspace's setting objects.public_read; ${named} is not below any of them.`
  throw new Problem('forbidden', { detail, hint })
}

/**
 * Refuses an anon key in a workspace that lets anon keys hear nothing. Other roles pass.
 * @throws Problem `forbidden`
 */
export async function requireEvents(scope: WorkspaceScope): Promise<void> {
  if (scope.actor.role !== 'anon' || (await anonSettings(scope)).events === 'workspace') return
  throw new Problem('forbidden', {
    detail: 'Anon keys may not subscribe in this workspace: its setting anon.events is "none".',
    hint: settingHint(scope, { anon: { events: 'workspace' } }),
  })
}

/**
 * The refusal of an anon key that may not do something with a collection.
 * @param isDefault whether the workspace's setting decides, not the declaration
 */
export function collectionForbidden(
  scope: WorkspaceScope,
  { name, right, isDefault }: { name: string; right: string; isDefault: boolean },
): Problem {
  const declared = `"access": {"anon": {"${right}": true}}`
  if (!isDefault)
    return new Problem('forbidden', {
      detail: `Anon keys may not ${right} documents of ${name}.`,
      hint: `The declaration of a collection lets them: ${declared}.`,
    })
  const opening = settingHint(scope, { anon: { collections: 'read' } })
  return new Problem('forbidden', {
    detail: `Anon keys may not ${right} documents of ${name}: the workspace's setting anon.collections is "none".`,
    hint: `${opening} One collection is opened by its declaration: ${declared}.`,
  })
}

/** How an admin opens it. */
function settingHint({ ref }: WorkspaceScope, settings: object): string {
  return `An admin opens it: POST /v1/services/configure ${JSON.stringify({ workspace_id: ref.workspaceId, ...settings })}.`
}
