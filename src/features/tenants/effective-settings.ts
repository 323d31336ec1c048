/** Lists the settings of a workspace one by one: the value of each, where it comes from, and how two states differ. */

import { isDeepStrictEqual } from 'node:util'
import Type, { type Static } from 'typebox'
import { component } from '../../core/components/component.ts'
import { AUTH_DEFAULTS } from '../identity/users/auth-settings.ts'
import { PERIOD_DEFAULTS } from '../retention/retention-settings.ts'
import { IMAGE_DEFAULTS } from './image-settings.ts'
import { OPERATORS_DEFAULTS } from './operator-access.ts'
import { ANON_DEFAULTS, NO_OBJECTS, NO_TOPICS } from './public-access.ts'

export const EffectiveSetting = component(
  'EffectiveSetting',
  Type.Object({
    pointer: Type.String({ description: 'JSON Pointer of the setting, such as `/anon/collections`.' }),
    value: Type.Unknown({ description: 'Value that is in force. Null: no limit, or nothing set.' }),
    source: Type.Union([Type.Literal('default'), Type.Literal('workspace'), Type.Literal('tenant')], {
      description: 'Source of the value. `default`: nothing is set; `workspace`, `tenant`: their settings.',
    }),
  }),
  { pointer: '/anon/collections', value: 'read', source: 'workspace' },
)
type EffectiveSetting = Static<typeof EffectiveSetting>

export const SettingChange = component(
  'SettingChange',
  Type.Object({
    pointer: Type.String({ description: 'JSON Pointer of the setting.' }),
    before: Type.Unknown({ description: 'Value before the change. Null: none.' }),
    after: Type.Unknown({ description: 'Value after the change. Null: none.' }),
  }),
  { pointer: '/anon/collections', before: 'none', after: 'read' },
)
type SettingChange = Static<typeof SettingChange>

/** What is in force without a setting. */
const DEFAULTS = {
  experimental: [],
  egress: { allow: [] },
  anon: ANON_DEFAULTS,
  cors: { origins: ['*'] },
  operators: OPERATORS_DEFAULTS,
  auth: AUTH_DEFAULTS,
  objects: { public_read: [], user: NO_OBJECTS, images: IMAGE_DEFAULTS },
  topics: { user: NO_TOPICS },
  retention: { ...PERIOD_DEFAULTS.workspace, archive: null },
  tenant: { retention: PERIOD_DEFAULTS.tenant },
}

/** These are set as a whole, although they have members. */
const WHOLE: ReadonlySet<string> = new Set(['/auth/branding', '/retention/archive'])

type Values = ReadonlyMap<string, unknown>

function valuesOf(value: unknown, pointer = ''): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || WHOLE.has(pointer))
    return [[pointer, value]]
  return Object.entries(value).flatMap(([name, member]) => valuesOf(member, `${pointer}/${name}`))
}

const DEFAULT_VALUES: Values = new Map(valuesOf(DEFAULTS))

/**
 * @param shown the settings as their admins see them, in the shape of the request that changes them
 * @param isSet true if a setting with this pointer is stored; else its value is the default
 */
export function effectiveSettings(
  shown: object,
  isSet: (pointer: string) => boolean,
): readonly EffectiveSetting[] {
  const values = new Map([...DEFAULT_VALUES, ...valuesOf(shown)])
  return [...values].map(([pointer, value]) => ({
    pointer,
    value,
    source: isSet(pointer) ? (pointer.startsWith('/tenant/') ? 'tenant' : 'workspace') : 'default',
  }))
}

/** The test `isSet` of {@link effectiveSettings}. @param stored what the database has; lists that are as by default count as not set */
export function storedSettings(stored: object): (pointer: string) => boolean {
  const set = valuesOf(stored).filter(
    ([pointer, value]) => !Array.isArray(value) || !isDeepStrictEqual(value, DEFAULT_VALUES.get(pointer)),
  )
  const pointers = new Set(set.map(([pointer]) => pointer))
  return (pointer) => pointers.has(pointer)
}

export function settingChanges(
  before: readonly EffectiveSetting[],
  after: readonly EffectiveSetting[],
): readonly SettingChange[] {
  const old = new Map(before.map(({ pointer, value }) => [pointer, value]))
  return after.flatMap(({ pointer, value }) =>
    isDeepStrictEqual(old.get(pointer), value)
      ? []
      : [{ pointer, before: old.get(pointer) ?? null, after: value }],
  )
}
