/** The settings of a workspace, and of a tenant, in an archive. */

import Type from 'typebox'
import {
  restoreSettings,
  restoreTenantSettings,
  settingsToMove,
  tenantSettingsToMove,
} from '../../tenants/settings-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { gather, type Member } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import {
  inMember,
  type MemberReader,
  type Part,
  type Target,
  type TenantPart,
  type TenantTarget,
} from '../part.ts'

type Settings = Readonly<Record<string, unknown>>

/** The settings themselves are checked when they are stored: an installation that does not know one goes on without it. */
const readSettings = jsonOf(
  Type.Object(
    {
      settings: Type.Record(Type.String({ pattern: '^' }), Type.Unknown()),
      missing: Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 1_000 }),
    },
    { additionalProperties: false },
  ),
)
const NAME = 'settings.json'

const settingsIn = async (member: Member) =>
  readSettings(await gather(member, ARCHIVE_LIMITS.headBytesMax), member.name)

/** @param restore stores them @returns what was left out */
const readerOf = <Into extends Target | TenantTarget>(
  restore: (into: Into, settings: Settings) => Promise<string[]>,
): MemberReader<Into> => ({
  check: async (_, member) => {
    await settingsIn(member)
  },
  read: async (into, member) => {
    const { settings, missing } = await settingsIn(member)
    const refused = await inMember(into, member, () => restore(into, settings))
    for (const what of [...missing, ...refused]) into.missing(what)
  },
})

const contentOf = (moved: { readonly settings: Settings; readonly missing: readonly string[] }) =>
  Buffer.from(JSON.stringify(moved))

export const SETTINGS: Part = {
  members: { [NAME]: readerOf<Target>(({ admin, ref }, settings) => restoreSettings(admin, ref, settings)) },

  async *write(writer, { structure, missing }) {
    const moved = await settingsToMove(structure)
    for (const what of moved.missing) missing(what)
    yield* writer.small(NAME, contentOf(moved))
  },
}

export const TENANT_SETTINGS: TenantPart = {
  members: {
    [NAME]: readerOf<TenantTarget>(({ admin, tenantId }, settings) =>
      restoreTenantSettings(admin, tenantId, settings),
    ),
  },

  async *write(writer, { tenant }) {
    yield* writer.small(NAME, contentOf({ settings: await tenantSettingsToMove(tenant), missing: [] }))
  },
}
