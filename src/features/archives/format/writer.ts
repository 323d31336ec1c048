/** Writes the members of an archive as a stream, and the list of them at its end. */

import { createHash } from 'node:crypto'
import { ARCHIVE_LIMITS } from '../limits.ts'
import { type ArchiveCounts, type EndLine, invalid, MANIFEST, type MemberLine, partName } from './layout.ts'
import { TAR_END, tarHeader, tarPadding } from './tar.ts'

type Bytes = AsyncGenerator<Uint8Array>

export class ArchiveWriter {
  readonly counts: ArchiveCounts = {}
  /** Lines of the manifest, gathered to pieces: an array of a million lines would take ten times the memory. */
  readonly #manifest: Buffer[] = []
  #lines: string[] = []
  #members = 0
  /** In front of the names of members. */
  #folder = ''

  /** The next members are below a folder. @param folder empty, or ends with a slash */
  enter(folder: string): void {
    this.#folder = folder
  }

  /** A member whose content is in memory. */
  async *small(name: string, content: Buffer): Bytes {
    yield* this.member(name, content.byteLength, [content])
  }

  /**
   * @param path its name in the folder that was entered @param size in bytes; the content has exactly so many
   * @throws Error if it has not
   */
  async *member(
    path: string,
    size: number,
    content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Bytes {
    const name = `${this.#folder}${path}`
    if (this.#members >= ARCHIVE_LIMITS.membersMax)
      throw invalid(
        `would be one of more than ${ARCHIVE_LIMITS.membersMax}, which an archive has at most.`,
        name,
      )
    const digest = createHash('sha256')
    let left = size
    yield tarHeader(name, size)
    for await (const chunk of content) {
      left -= chunk.byteLength
      if (left < 0) break
      digest.update(chunk)
      yield chunk
    }
    if (left !== 0) throw new Error(`the member ${name} does not have the announced ${size} bytes`)
    yield tarPadding(size)
    this.#list({ name, size, sha256: digest.digest('hex') })
  }

  /**
   * Members of lines, each of a bounded size.
   * @param folder of the members; without any line there is none @param count to which each line is added
   */
  async *lines(folder: string, lines: AsyncIterable<object>, count?: string): Bytes {
    let [part, gathered, bytes] = [0, [] as string[], 0]
    const take = () => {
      const content = Buffer.from(gathered.join(''))
      part += 1
      ;[gathered, bytes] = [[], 0]
      return this.small(partName(folder, part), content)
    }
    for await (const line of lines) {
      if (count !== undefined) this.count(count)
      const text = `${JSON.stringify(line)}\n`
      gathered.push(text)
      bytes += text.length
      if (bytes >= ARCHIVE_LIMITS.partBytes || gathered.length >= ARCHIVE_LIMITS.partLinesMax) yield* take()
    }
    if (gathered.length > 0) yield* take()
  }

  /** Adds to a count of the manifest. @throws Problem `archive_invalid` for more than an import takes */
  count(name: string, by = 1): void {
    const counted = (this.counts[name] ?? 0) + by
    const most = COUNTS_MAX[name]
    if (most !== undefined && counted > most)
      throw invalid(`The archive would have more than ${most} ${name}, which one has at most.`)
    this.counts[name] = counted
  }

  /** The list of all members, and the end of the archive. */
  async *end(): Bytes {
    const end: EndLine = { end: true, members: this.#members, counts: this.counts }
    this.#lines.push(`${JSON.stringify(end)}\n`)
    this.#flush()
    const size = this.#manifest.reduce((sum, piece) => sum + piece.byteLength, 0)
    yield tarHeader(MANIFEST, size)
    yield* this.#manifest
    yield tarPadding(size)
    yield TAR_END
  }

  #list(line: MemberLine): void {
    this.#members += 1
    this.#lines.push(`${JSON.stringify(line)}\n`)
    if (this.#lines.length >= LINES_GATHERED) this.#flush()
  }

  #flush(): void {
    this.#manifest.push(Buffer.from(this.#lines.join('')))
    this.#lines = []
  }
}

const LINES_GATHERED = 1_000

const { definitionsMax, versionsMax } = ARCHIVE_LIMITS
/** What an import has in memory of each is bounded (checks.ts). */
const COUNTS_MAX: Readonly<Record<string, number>> = {
  ...{ functions: definitionsMax, flows: definitionsMax, mcp_servers: definitionsMax },
  ...{ function_versions: versionsMax, flow_versions: versionsMax, mcp_server_versions: versionsMax },
}
