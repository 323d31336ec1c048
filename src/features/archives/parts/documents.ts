/** The documents of a workspace in an archive: lines as the export of a collection has them, below the name of the collection. */

import { parseJson } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'
import type { Fields } from '../../collections/document.ts'
import { allDocuments, collectionNames, restoreDocuments } from '../../collections/transfer.ts'
import { findRestoredUsers } from '../../identity/users/users-transfer.ts'
import type { ArchiveChecks } from '../checks.ts'
import { invalid } from '../format/layout.ts'
import { type Member, readChunksOfLines, readLines } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { counted, inMember, type Part, type Target } from '../part.ts'

const { documentsStoredMax } = ARCHIVE_LIMITS

export const DOCUMENTS: Part = {
  members: { documents: { check, read } },

  async *write(writer, { documents: service }) {
    for await (const name of collectionNames(service))
      yield* writer.lines(`documents/${name}`, allDocuments(service, name), 'documents')
  },
}

/** The id of a document as exports write it, in front; others are read as a whole. */
const ID_IN_FRONT = /^\{"id":"([0-9a-f-]{36})"/

async function check(checks: ArchiveChecks, member: Member): Promise<void> {
  let at = 0
  for await (const line of readLines(member)) {
    at += 1
    const [, inFront] = ID_IN_FRONT.exec(line.toString('latin1', 0, 50)) ?? []
    const id = inFront ?? documentOf(line, member.name, at)['id']
    if (typeof id !== 'string') throw invalid(`has a document without an id at line ${at}.`, member.name)
    checks.next(`documents of ${collectionOf(member)}`, id, member)
    counted(checks.counts, 'documents')
  }
}

const collectionOf = ({ path }: Member): string => path.split('/')[1] ?? ''

async function read(into: Target, member: Member): Promise<void> {
  const collection = collectionOf(member)
  let at = 0
  for await (const chunk of readChunksOfLines(member, documentsStoredMax)) {
    const refused = await inMember(into, member, async () => {
      const documents = chunk.map((line, n) => documentOf(line, member.name, at + n + 1))
      return restore(into, collection, documents)
    })
    if (refused !== undefined)
      throw invalid(
        `has a document at line ${at + refused.index + 1} that cannot be stored: ${refused.problem.message}`,
        member.name,
        refused.problem,
      )
    counted(into.counts, 'documents', chunk.length)
    at += chunk.length
  }
}

async function restore({ admin, ref, service, newIdOf }: Target, collection: string, documents: Fields[]) {
  const owners = documents.flatMap(({ _owner }) => (typeof _owner === 'string' ? [_owner] : []))
  const mapped = await findRestoredUsers(admin, ref, [...new Set(owners)], newIdOf)
  return restoreDocuments(service, collection, documents, (named) => mapped.get(named) ?? named)
}

function documentOf(line: Buffer, member: string, number: number): Fields {
  const value = jsonIn(line, member, number)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalid(`has no document at line ${number}.`, member)
}

function jsonIn(line: Buffer, member: string, number: number): unknown {
  try {
    return parseJson(decodeUtf8(line, 'It'))
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    throw invalid(`has no document at line ${number}: ${error.message}`, member, error)
  }
}
