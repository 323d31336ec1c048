/** The documents of a workspace in an archive: lines as the export of a collection has them, below the name of the collection. */

import { parseJson } from '../../../core/json.ts'
import { decodeUtf8 } from '../../../core/text/utf8.ts'
import type { Fields } from '../../collections/document.ts'
import { allDocuments, collectionNames, restoreDocuments } from '../../collections/transfer.ts'
import { findRestoredUsers } from '../../identity/users/users-transfer.ts'
import { invalid } from '../format/layout.ts'
import { readChunksOfLines } from '../format/reader.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { counted, inMember, type Part, type Target } from '../part.ts'

const { documentsStoredMax } = ARCHIVE_LIMITS

export const DOCUMENTS: Part = {
  folders: ['documents'],

  async *write(writer, { documents: service }) {
    const lines = async function* (name: string) {
      for await (const document of allDocuments(service, name)) {
        writer.count('documents')
        yield document
      }
    }
    for await (const name of collectionNames(service)) yield* writer.lines(`documents/${name}`, lines(name))
  },

  async read(into, member) {
    const [, collection = ''] = member.name.split('/')
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
  },
}

async function restore({ admin, ref, service, newIdOf }: Target, collection: string, documents: Fields[]) {
  const owners = documents.flatMap(({ _owner }) => (typeof _owner === 'string' ? [_owner] : []))
  const mapped = await findRestoredUsers(admin, ref, [...new Set(owners)], newIdOf)
  return restoreDocuments(service, collection, documents, (named) => mapped.get(named) ?? named)
}

function documentOf(line: Buffer, member: string, number: number): Fields {
  const value = parseJson(decodeUtf8(line, 'It'))
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalid(`has no document at line ${number}.`, member)
}
