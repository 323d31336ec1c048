/** The users of a workspace in an archive. */

import { allUsers, restoreUsers, UserLine } from '../../identity/users/users-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readChunksOfLines, readLines } from '../format/reader.ts'
import { counted, inMember, type Part } from '../part.ts'

const parse = jsonOf(UserLine)
const AT_ONCE = 500

export const USERS: Part = {
  members: {
    users: {
      check: async (checks, member) => {
        for await (const line of readLines(member)) {
          checks.next('users', parse(line, member.name).id, member)
          counted(checks.counts, 'users')
        }
      },
      read: async (into, member) => {
        const { admin, ref, newIdOf, counts } = into
        for await (const lines of readChunksOfLines(member, AT_ONCE)) {
          const users = lines.map((line) => parse(line, member.name))
          await inMember(into, member, () => restoreUsers(admin, ref, users, newIdOf))
          counted(counts, 'users', users.length)
        }
      },
    },
  },

  async *write(writer, { structure }) {
    yield* writer.lines('users', allUsers(structure), 'users')
  },
}
