/**
 * Reads an archive as a stream, and checks it on the way: the names and order of its members, their sizes, and at the end the
 * digest of each. Who has read it to its end has read what was exported.
 */

import { createHash, hash } from 'node:crypto'
import { digested } from '../../../core/bytes.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'
import {
  type ArchiveCounts,
  EndLine,
  HEAD,
  type Head,
  invalid,
  jsonOf,
  MANIFEST,
  MemberLine,
  parseHead,
} from './layout.ts'
import { readTar, type TarFile } from './tar.ts'

const { headBytesMax, partBytesMax, partLinesMax, manifestBytesMax, membersMax, workspacesMax } =
  ARCHIVE_LIMITS

/** What a member has, by the form of its name. */
const FORMS = [
  { form: /^(?:settings|workspace)\.json$/, bytesMax: headBytesMax },
  { form: /^documents\/[A-Za-z_][A-Za-z0-9_-]{0,62}\/[0-9]{6}\.ndjson$/, bytesMax: partBytesMax },
  { form: /^[a-z][a-z-]{1,30}\/[0-9]{6}\.ndjson$/, bytesMax: partBytesMax },
  { form: /^objects\/[0-9]{6}\/[0-9]{6}$/, bytesMax: Number.MAX_SAFE_INTEGER },
] as const

export interface Member extends TarFile {
  /** The slug of its workspace, in the archive of a tenant; undefined for members of the tenant, and in the archive of a workspace. */
  readonly workspace: string | undefined
  /** Its name without the folder of its workspace. */
  readonly path: string
  /** The first step of the path. */
  readonly folder: string
}

/** @param name of a member */
function placeOf(name: string): Pick<Member, 'workspace' | 'path' | 'folder'> {
  const [, workspace, below] = /^workspaces\/([a-z0-9-]{1,40})\/(.*)$/.exec(name) ?? []
  const path = below ?? name
  return { workspace, path, folder: path.split('/')[0] ?? path }
}

/** An archive that is open at its second member. */
export interface OpenArchive {
  readonly head: Head
  /** All members between the first and the last. The last one is checked when these have been read. */
  readonly members: AsyncGenerator<Member>
  /** What the archive has, as its end says; nothing until that has been read. */
  readonly announced: () => ArchiveCounts
}

/**
 * @param chunks the unpacked archive
 * @throws Problem `archive_invalid`, also while the members are read
 */
export async function openArchive(chunks: AsyncIterable<Uint8Array>): Promise<OpenArchive> {
  const files = readTar(chunks)
  const { value: first } = await files.next()
  if (first?.name !== HEAD) throw invalid(`is missing: an archive begins with it.`, HEAD)
  const list = new MemberList()
  list.begin(first.name)
  const bytes = await gather(first, headBytesMax)
  list.add(first.name, first.size, hash('sha256', bytes, 'buffer'))
  return { head: parseHead(bytes), members: readMembers(files, list), announced: () => list.announced }
}

async function* readMembers(files: AsyncGenerator<TarFile>, list: MemberList): AsyncGenerator<Member> {
  let isComplete = false
  for await (const file of files) {
    const { name, size } = file
    if (isComplete) throw invalid('follows the list of members, which is the last one.', name)
    if (name === MANIFEST) {
      await list.compare(file)
      isComplete = true
      continue
    }
    const place = placeOf(name)
    const form = FORMS.find((one) => one.form.test(place.path))
    if (form === undefined) throw invalid('has a name that no member of an archive has.', name)
    if (size > form.bytesMax) throw invalid(`has ${size} bytes; the maximum is ${form.bytesMax}.`, name)
    list.begin(name)
    const digest = createHash('sha256')
    const isOfLines = name.endsWith('.ndjson')
    const content = digested(isOfLines ? withFewLines(file) : file.content, digest)
    yield { name, size, content, ...place }
    for await (const _ of content);
    list.add(name, size, digest.digest())
  }
  if (!isComplete) throw invalid('is missing: an archive ends with it.', MANIFEST)
}

/** @throws Problem `archive_invalid` for a member of more lines than one has */
async function* withFewLines({ name, content }: TarFile): AsyncGenerator<Uint8Array> {
  let lines = 0
  for await (const chunk of content) {
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) lines += 1
    if (lines > partLinesMax) throw invalid(`has more than ${partLinesMax} lines.`, name)
    yield chunk
  }
}

/** @throws Problem `archive_invalid` for a member of more bytes */
export async function gather({ name, size, content }: TarFile, bytesMax: number): Promise<Buffer> {
  if (size > bytesMax) throw invalid(`has ${size} bytes; the maximum is ${bytesMax}.`, name)
  const pieces: Uint8Array[] = []
  for await (const piece of content) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** The lines of a member, without blank ones. */
export async function* readLines(member: TarFile): AsyncGenerator<Buffer> {
  yield* splitLines(await gather(member, partBytesMax))
}

/** The lines of a member, up to `atOnce` at a time. */
export async function* readChunksOfLines(member: TarFile, atOnce: number): AsyncGenerator<Buffer[]> {
  let chunk: Buffer[] = []
  for await (const line of readLines(member)) {
    chunk.push(line)
    if (chunk.length < atOnce) continue
    yield chunk
    chunk = []
  }
  if (chunk.length > 0) yield chunk
}

const NEWLINE = 0x0a

function* splitLines(bytes: Buffer): Generator<Buffer> {
  let from = 0
  while (from < bytes.byteLength) {
    const at = bytes.indexOf(NEWLINE, from)
    const end = at < 0 ? bytes.byteLength : at
    if (end > from) yield bytes.subarray(from, end)
    from = end + 1
  }
}

const readMemberLine = jsonOf(MemberLine)
const readEndLine = jsonOf(EndLine)

const DIGEST_BYTES = 32

/** What was read, in 32 bytes for each member. */
class MemberList {
  #digests = Buffer.alloc(DIGEST_BYTES * 1_024)
  #count = 0
  announced: ArchiveCounts = {}
  readonly #order = new MemberOrder()

  /** Before a member is read. @throws Problem `archive_invalid` for a second member of a name, and for too many */
  begin(name: string): void {
    if (this.#count >= membersMax) throw invalid(`is one of more than ${membersMax}.`, name)
    this.#order.add(name)
  }

  /** After it was read. */
  add(name: string, size: number, sha256: Buffer): void {
    if ((this.#count + 1) * DIGEST_BYTES > this.#digests.byteLength)
      this.#digests = Buffer.concat([this.#digests], this.#digests.byteLength * 2)
    digestOf(name, size, sha256.toString('hex')).copy(this.#digests, this.#count * DIGEST_BYTES)
    this.#count += 1
  }

  /** Compares what was read with the list at the end of the archive. @throws Problem `archive_invalid` with the first member that differs */
  async compare(manifest: TarFile): Promise<void> {
    if (manifest.size > manifestBytesMax)
      throw invalid(`has ${manifest.size} bytes; the maximum is ${manifestBytesMax}.`, MANIFEST)
    let index = 0
    let end: EndLine | undefined
    for await (const line of linesIn(manifest.content)) {
      if (end !== undefined) throw invalid('goes on after its last line.', MANIFEST)
      if (line.includes('"end"')) {
        end = readEndLine(line, MANIFEST)
        continue
      }
      const { name, size, sha256 } = readMemberLine(line, MANIFEST)
      if (!this.#has(index, digestOf(name, size, sha256)))
        throw invalid('is not what was exported: its size or its SHA-256 differs, or it is missing.', name)
      index += 1
    }
    if (end === undefined) throw invalid('has no last line, so it is cut off.', MANIFEST)
    if (end.members !== this.#count || index !== this.#count)
      throw invalid(`lists ${index} members; the archive has ${this.#count}.`, MANIFEST)
    this.announced = end.counts
  }

  #has(index: number, digest: Buffer): boolean {
    const at = index * DIGEST_BYTES
    return index < this.#count && digest.equals(this.#digests.subarray(at, at + DIGEST_BYTES))
  }
}

/**
 * The numbers of the members of each series: they count up, so that none comes twice and none is left out. The members of a workspace
 * follow each other.
 */
class MemberOrder {
  #workspace: string | undefined
  readonly #workspaces = new Set<string | undefined>()
  /** The last number of each series of the workspace; as many as there are folders and collections. */
  readonly #last = new Map<string, number>()
  /** That of the bytes of the present part of objects. */
  #ofObjects = 0

  /** @throws Problem `archive_invalid` for a member that comes again, or out of order */
  add(name: string): void {
    const { workspace, path } = placeOf(name)
    if (workspace !== this.#workspace) this.#enter(name, workspace)
    const [, part, number] = /^objects\/([0-9]{6})\/([0-9]{6})$/.exec(path) ?? []
    if (part !== undefined && number !== undefined) {
      this.#ofObjects += 1
      this.#require(name, Number(part) === this.#last.get('objects/') && Number(number) === this.#ofObjects)
      return
    }
    const [, series = path, text = '1'] = /^(.*\/)([0-9]{6})\.ndjson$/.exec(path) ?? []
    const next = (this.#last.get(series) ?? 0) + 1
    this.#require(name, Number(text) === next)
    this.#last.set(series, next)
    if (series === 'objects/') this.#ofObjects = 0
  }

  #enter(name: string, workspace: string | undefined): void {
    this.#workspaces.add(this.#workspace)
    this.#require(name, !this.#workspaces.has(workspace))
    if (this.#workspaces.size > workspacesMax)
      throw invalid(`is of one of more than ${workspacesMax} workspaces.`, name)
    this.#workspace = workspace
    this.#last.clear()
    this.#ofObjects = 0
  }

  #require(name: string, isNext: boolean): void {
    if (!isNext) throw invalid('comes again, or out of order.', name)
  }
}

const digestOf = (name: string, size: number, sha256: string): Buffer =>
  hash('sha256', JSON.stringify([name, size, sha256]), 'buffer')

const LINE_BYTES_MAX = 10_000

async function* linesIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0)
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk])
    const end = bytes.lastIndexOf(0x0a) + 1
    yield* splitLines(bytes.subarray(0, end))
    rest = bytes.subarray(end)
    if (rest.byteLength > LINE_BYTES_MAX) throw invalid('has a line that is too long.', MANIFEST)
  }
  yield* splitLines(rest)
}
