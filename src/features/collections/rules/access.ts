/** The member `access` of a declaration: its API type, and its parsed form. */

import Type, { type Static } from 'typebox'
import type { AdminScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { canonical } from '../../../core/json.ts'
import { ADMINS, type Role } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Filter, Path } from '../query/filter.ts'
import { atPointer, readPath } from '../query/syntax.ts'
import { CollectionName } from '../schemas/columns.ts'
import { qualified, type Rule, readRule } from './rule-language.ts'

/** The rights on documents; each is a policy of the table. */
export const ROW_RIGHT_NAMES = ['read', 'create', 'update', 'delete'] as const
/** Aggregates are of the documents that `read` admits. */
const RIGHT_NAMES = [...ROW_RIGHT_NAMES, 'aggregate'] as const
export const ROLE_NAMES = ['anon', 'user'] as const
export type RoleName = (typeof ROLE_NAMES)[number]
export type RowRight = (typeof ROW_RIGHT_NAMES)[number]
export type Right = (typeof RIGHT_NAMES)[number]

const RuleSource = Type.Union([Type.Boolean(), Type.Record(Type.String(), Type.Unknown())])
const RightsSchema = Type.Object(
  {
    read: Type.Optional(RuleSource),
    create: Type.Optional(RuleSource),
    update: Type.Optional(RuleSource),
    delete: Type.Optional(RuleSource),
    aggregate: Type.Optional(
      Type.Boolean({ description: 'True if the documents that `read` admits may be counted and added up.' }),
    ),
  },
  { additionalProperties: false },
)

const LookupSchema = Type.Object(
  {
    collection: CollectionName,
    field: Type.String({ description: 'Field whose values are listed.' }),
    filter: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Filter of the documents to read, such as `{"user": "$user.id"}`.',
    }),
  },
  { additionalProperties: false },
)

export const Access = component(
  'CollectionAccess',
  Type.Object(
    {
      anon: Type.Optional(RightsSchema),
      user: Type.Optional(RightsSchema),
      lookups: Type.Optional(
        Type.Record(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), LookupSchema, {
          // Without it, a name of another form would be left unchecked.
          additionalProperties: false,
          maxProperties: COLLECTION_LIMITS.ruleLookupsMax,
          description:
            'Lists of values that rules use as `$lookups.<name>`; each is read from a field of another collection.',
        }),
      ),
    },
    {
      additionalProperties: false,
      description:
        'Rights of anon keys and users: each is `true`, `false`, or, except for `aggregate`, a filter with `$user.id`, `$user.email`, `$user.claims.<name>`, `$lookups.<name>` and `$now`. A right that is not named is denied. Without any `access`, users have no rights, and anon keys read only if the setting `anon.collections` of the workspace is `read`.',
    },
  ),
  { anon: { read: true }, user: { read: true, create: true, update: { owner: '$user.id' } } },
)
export type Access = Static<typeof Access>

/**
 * Only admins decide that anon keys or users may do more. What is not the same as before, or `true` before, counts as more.
 * @param before of a new declaration: undefined
 * @throws Problem `forbidden` with the rights that are widened
 */
export function requireRightToWiden({ actor }: AdminScope, before: Access | undefined, after: Access): void {
  if ((ADMINS as readonly Role[]).includes(actor.role)) return
  const widened = widenedRights(before, after)
  if (widened.length === 0) return
  throw new Problem('forbidden', {
    detail: `This lets anon keys or users do more than before, which only admins decide: ${widened.join(', ')}.`,
    hint: 'Ask an admin of the workspace to declare `access`, or leave it as it is.',
  })
}

function widenedRights(before: Access = {}, after: Access): string[] {
  const same = (one: unknown, other: unknown) => canonical(one) === canonical(other)
  const hasLookups = same(before.lookups ?? {}, after.lookups ?? {})
  // Without any `access`, anon keys read by the setting of the workspace.
  const isOpened = Object.keys(before).length > 0 && Object.keys(after).length === 0
  const widened = ROLE_NAMES.flatMap((role) =>
    RIGHT_NAMES.filter((right) => {
      const [rule = false, old = false] = [after[role]?.[right], before[role]?.[right]]
      return rule !== false && old !== true && !(hasLookups && same(rule, old))
    }).map((right) => `${role}.${right}`),
  )
  return isOpened ? ['anon.read', ...widened] : widened
}

/** A list of values for rules, read from another collection with the rights of the service. */
export interface Lookup {
  readonly collection: string
  readonly field: Path
  readonly rule: Rule
}

/** The rules of both roles; absent ones are not declared. */
export type AccessRules = Readonly<Record<RoleName, Readonly<Partial<Record<Right, boolean | Rule>>>>> & {
  readonly lookups: Readonly<Record<string, Lookup>>
}

/** True if what a caller may read depends on the document. */
export const hasReadFilter = ({ anon, user }: AccessRules): boolean =>
  typeof anon.read === 'object' || typeof user.read === 'object'

const FIELD = { code: 'filter_invalid', in: 'body', name: 'field' } as const

/** @param collection that declares them. @throws Problem if a rule is malformed */
export function readAccess(access: Access, collection: string): AccessRules {
  const rulesOf = (role: RoleName) =>
    Object.fromEntries(
      Object.entries(access[role] ?? {}).map(([right, source]) => [
        right,
        typeof source === 'boolean'
          ? source
          : within(`${role}/${right}`, () => qualified(readRule(source), collection)),
      ]),
    )
  const lookups = Object.entries(access.lookups ?? {}).map(([name, { field, filter, ...from }]) => {
    const read = (): Lookup => ({ ...from, field: readPath(field, FIELD), rule: readRule(filter) })
    return [name, within(`lookups/${name}`, read)] as const
  })
  // Any `access` closes the collection to whom it does not name; without it, the setting of the workspace decides for anon keys.
  const closed = Object.keys(access).length > 0 ? { read: false } : {}
  return {
    anon: { ...closed, ...rulesOf('anon') },
    user: rulesOf('user'),
    lookups: Object.fromEntries(lookups),
  }
}

/** Runs a check of one rule, and names the rule in its problem. */
export const within = <T>(place: `${RoleName | 'lookups'}/${string}`, check: () => T): T =>
  atPointer(`/access/${place}`, check)

/** The documents for which a caller has a right: all of them, none, or it depends on the document (decision 49). */
export type Permission = boolean | Filter
export type Permissions = Readonly<Record<Right, Permission>>

/** The roles that may read some documents of a collection now; they also receive its change events. */
export interface Readers {
  readonly anon: boolean
  readonly user: boolean
}
