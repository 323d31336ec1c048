/** The settings of a workspace in an archive. */

import { parseJson } from '../../../core/json.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'
import { configureServices, settingsToMove } from '../../tenants/workspace-settings.ts'
import { invalid } from '../format/layout.ts'
import { gather } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { inMember, type Part } from '../part.ts'

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
    await inMember(into, member, async () => {
      const { settings, missing: byHand } = parseJson(decodeUtf8(bytes, 'It')) as Record<string, unknown>
      if (typeof settings !== 'object' || settings === null || !isTexts(byHand))
        throw invalid('has no settings.', member.name)
      // The workspace of the archive is never the one that is named.
      const {
        workspace_id: _,
        egress: _operators,
        tenant: _tenant,
        ...own
      } = settings as Record<string, unknown>
      await configureServices.run(admin, configureServices.parse({ ...own, workspace_id: ref.workspaceId }))
      for (const what of byHand) missing(what)
    })
  },
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length <= 1_000 && value.every((text) => typeof text === 'string')
