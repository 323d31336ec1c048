/** The settings of a workspace in an archive. */

import Type from 'typebox'
import { configureServices, settingsToMove } from '../../tenants/workspace-settings.ts'
import { jsonOf } from '../format/layout.ts'
import { gather } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { inMember, type Part } from '../part.ts'

const {
  workspace_id: _workspace,
  egress: _operators,
  tenant: _tenant,
  dry_run: _dryRun,
  if_match: _ifMatch,
  ...moving
} = configureServices.input.properties
const CLOSED = { additionalProperties: false }

/** Only settings that move: an archive names no other workspace, no addresses that operators allow, and nothing of the tenant. */
const readSettings = jsonOf(
  Type.Object(
    {
      settings: Type.Object(moving, CLOSED),
      missing: Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 1_000 }),
    },
    CLOSED,
  ),
)

export const SETTINGS: Part = {
  folders: ['settings.json'],

  async *write(writer, { structure, missing }) {
    const { settings, missing: byHand } = await settingsToMove(structure)
    for (const what of byHand) missing(what)
    yield* writer.small('settings.json', Buffer.from(JSON.stringify({ settings, missing: byHand })))
  },

  /** By the same operation as in requests, which checks all of it. */
  async read(into, member) {
    const { admin, ref, missing } = into
    const bytes = await gather(member, ARCHIVE_LIMITS.headBytesMax)
    const { settings, missing: byHand } = readSettings(bytes, member.name)
    await inMember(into, member, async () => {
      await configureServices.run(
        admin,
        configureServices.parse({ ...settings, workspace_id: ref.workspaceId }),
      )
      for (const what of byHand) missing(what)
    })
  },
}
