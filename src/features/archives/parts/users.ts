/** The users of a workspace in an archive. */

import { allUsers, restoreUsers, UserLine } from '../../identity/users/users-transfer.ts'
import { jsonOf } from '../format/layout.ts'
import { readLines } from '../format/reader.ts'
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

  async read({ admin, ref, newIdOf, counts }, member) {
    const users = (await readLines(member)).map((line) => readLine(line, member.name))
    for (let at = 0; at < users.length; at += AT_ONCE)
      await inMember(member, () => restoreUsers(admin, ref, users.slice(at, at + AT_ONCE), newIdOf))
    counted(counts, 'users', users.length)
  },
}
