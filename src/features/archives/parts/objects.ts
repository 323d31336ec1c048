/**
 * The objects of a workspace in an archive: members of lines, each followed by the bytes of its objects in the same order, since a
 * key may be longer than the name of a member.
 */

import { findRestoredUsers } from '../../identity/users/users-transfer.ts'
import { allObjects, ObjectLine, readBytes, restoreObject } from '../../objects/objects-transfer.ts'
import { bytesName, invalid, jsonOf, partName } from '../format/layout.ts'
import { type Member, readLines } from '../format/reader.ts'
import type { ArchiveWriter } from '../format/writer.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { counted, inMember, type Part, type Source, type Target } from '../part.ts'

const { partObjectsMax } = ARCHIVE_LIMITS
const readLine = jsonOf(ObjectLine)

type Entry = ObjectLine & { readonly blob: string }

export const OBJECTS: Part = {
  folders: ['objects'],

  async *write(writer, source) {
    let [part, entries] = [0, [] as Entry[]]
    for await (const entry of allObjects(source.documents)) {
      entries.push(entry)
      if (entries.length < partObjectsMax) continue
      part += 1
      yield* writePart(writer, source, { part, entries })
      entries = []
    }
    if (entries.length > 0) yield* writePart(writer, source, { part: part + 1, entries })
  },

  async read(into, member) {
    const listed = LISTED.get(into) ?? []
    if (member.name.endsWith('.ndjson')) {
      if (listed.length > 0)
        throw invalid('comes before the bytes of all objects of the one before.', member.name)
      for await (const line of readLines(member)) {
        if (listed.length >= partObjectsMax)
          throw invalid(`lists more than ${partObjectsMax} objects.`, member.name)
        listed.push(readLine(line, member.name))
      }
      LISTED.set(into, listed)
      return
    }
    const line = listed.shift()
    if (line === undefined) throw invalid('is in no list of objects.', member.name)
    await inMember(into, member, () => restore(into, line, member))
    counted(into.counts, 'objects')
    counted(into.counts, 'object_bytes', line.size)
  },

  end(into) {
    const left = LISTED.get(into)?.length ?? 0
    if (left > 0) throw invalid(`The bytes of ${left} objects are missing.`)
  },
}

/** The objects of the last member of lines whose bytes have not come yet. */
const LISTED = new WeakMap<Target, ObjectLine[]>()

async function* writePart(
  writer: ArchiveWriter,
  { documents: service }: Source,
  { part, entries }: { readonly part: number; readonly entries: readonly Entry[] },
): AsyncGenerator<Uint8Array> {
  const lines = entries.map(({ blob: _, ...line }) => `${JSON.stringify(line)}\n`)
  yield* writer.small(partName('objects', part), Buffer.from(lines.join('')))
  for (const [index, entry] of entries.entries()) {
    yield* writer.member(bytesName(part, index + 1), entry.size, readBytes(service, entry))
    writer.count('objects')
    writer.count('object_bytes', entry.size)
  }
}

async function restore(
  { admin, ref, service, newIdOf }: Target,
  line: ObjectLine,
  member: Member,
): Promise<void> {
  if (member.size !== line.size)
    throw invalid(`has ${member.size} bytes, and its object ${line.size}.`, member.name)
  const { owner } = line
  const mapped = await findRestoredUsers(admin, ref, owner === null ? [] : [owner], newIdOf)
  const ownerHere = owner === null ? null : (mapped.get(owner) ?? owner)
  await restoreObject(service, line, ownerHere, { chunks: member.content, length: member.size })
}
