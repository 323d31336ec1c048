/** The settings of a workspace in an archive. */

import Type from 'typebox'
import { restoreSettings, settingsToMove } from '../../tenants/settings-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { gather, type Member } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { inMember, type Part } from '../part.ts'

/** The settings themselves are checked when they are stored: an installation that does not know one goes on without it. */
const readLine = jsonOf(
  Type.Object(
    {
      settings: Type.Record(Type.String({ pattern: '^' }), Type.Unknown()),
      missing: Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 1_000 }),
    },
    { additionalProperties: false },
  ),
)

const lineOf = async (member: Member) =>
  readLine(await gather(member, ARCHIVE_LIMITS.headBytesMax), member.name)

export const SETTINGS: Part = {
  members: {
    'settings.json': {
      check: async (_, member) => {
        await lineOf(member)
      },
      read: async (into, member) => {
        const { admin, ref, missing } = into
        const { settings, missing: byHand } = await lineOf(member)
        const refused = await inMember(into, member, () => restoreSettings(admin, ref, settings))
        for (const what of [...byHand, ...refused]) missing(what)
      },
    },
  },

  async *write(writer, { structure, missing }) {
    const { settings, missing: byHand } = await settingsToMove(structure)
    for (const what of byHand) missing(what)
    yield* writer.small('settings.json', Buffer.from(JSON.stringify({ settings, missing: byHand })))
  },
}
