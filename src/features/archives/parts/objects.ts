/**
 * The objects of a workspace in an archive: members of lines, each followed by the bytes of its objects in the same order, since a
 * key may be longer than the name of a member.
 */

import { findRestoredUsers } from '../../identity/users/users-transfer.ts'
import { allObjects, ObjectLine, readBytes, restoreObject } from '../../objects/objects-transfer.ts'
import type { ArchiveChecks } from '../checks.ts'
import { bytesName, invalid, jsonOf, partName } from '../format/layout.ts'
import { type Member, readLines } from '../format/reader.ts'
import type { ArchiveWriter } from '../format/writer.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { counted, inMember, type Part, type Source, type Target } from '../part.ts'

const { partObjectsMax } = ARCHIVE_LIMITS
const readLine = jsonOf(ObjectLine)

type Entry = ObjectLine & { readonly blob: string }

export const OBJECTS: Part = {
  members: {
    objects: {
      check: async (checks, member) => {
        const line = await nextListed(checks, member, ({ key }) => checks.next('objects', key, member))
        if (line === undefined) return
        requireSize(line, member)
        tally(checks, line)
      },
      read: async (into, member) => {
        const line = await nextListed(into, member)
        if (line === undefined) return
        await inMember(into, member, () => restore(into, line, member))
        tally(into, line)
      },
    },
  },

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

  end(reading) {
    const left = LISTED.get(reading)?.length ?? 0
    if (left > 0) throw invalid(`The bytes of ${left} objects are missing.`)
  },
}

/** The objects of the last member of lines whose bytes have not come yet. */
const LISTED = new WeakMap<ArchiveChecks | Target, ObjectLine[]>()

/**
 * Reads a member of lines, or finds the line of a member of bytes.
 * @returns undefined for a member of lines
 */
async function nextListed(
  reading: ArchiveChecks | Target,
  member: Member,
  check: (line: ObjectLine) => void = () => {},
): Promise<ObjectLine | undefined> {
  const listed = LISTED.get(reading) ?? []
  if (member.name.endsWith('.ndjson')) {
    if (listed.length > 0)
      throw invalid('comes before the bytes of all objects of the one before.', member.name)
    for await (const bytes of readLines(member)) {
      if (listed.length >= partObjectsMax)
        throw invalid(`lists more than ${partObjectsMax} objects.`, member.name)
      const line = readLine(bytes, member.name)
      check(line)
      listed.push(line)
    }
    LISTED.set(reading, listed)
    return undefined
  }
  const line = listed.shift()
  if (line === undefined) throw invalid('is in no list of objects.', member.name)
  return line
}

function tally({ counts }: ArchiveChecks | Target, { size }: ObjectLine): void {
  counted(counts, 'objects')
  counted(counts, 'object_bytes', size)
}

/** @throws Problem `archive_invalid` if the bytes are not as many as the list says */
function requireSize(line: ObjectLine, member: Member): void {
  if (member.size !== line.size)
    throw invalid(`has ${member.size} bytes, and its object ${line.size}.`, member.name)
}

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
  { admin, ref, service, newIdOf, requireBeingMade }: Target,
  line: ObjectLine,
  member: Member,
): Promise<void> {
  const { owner } = line
  const mapped = await findRestoredUsers(admin, ref, owner === null ? [] : [owner], newIdOf)
  const ownerHere = owner === null ? null : (mapped.get(owner) ?? owner)
  const source = { chunks: member.content, length: member.size }
  await restoreObject(service, { line, owner: ownerHere, source, requireBeingMade })
}
