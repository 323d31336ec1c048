/** The users of a workspace in an archive. */

import { allUsers, restoreUsers, UserLine } from '../../identity/users/users-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readChunksOfLines } from '../format/reader.ts'
import { counted, inMember, type Part } from '../part.ts'

const readLine = jsonOf(UserLine)
const AT_ONCE = 500

export const USERS: Part = {
  folders: ['users'],

  async *write(writer, { structure }) {
    const users = async function* () {
      for await (const user of allUsers(structure)) {
        writer.count('users')
        yield user
      }
    }
    yield* writer.lines('users', users())
  },

  async read(into, member) {
    const { admin, ref, newIdOf, counts } = into
    for await (const lines of readChunksOfLines(member, AT_ONCE)) {
      const users = lines.map((line) => readLine(line, member.name))
      await inMember(into, member, () => restoreUsers(admin, ref, users, newIdOf))
      counted(counts, 'users', users.length)
    }
  },
}
