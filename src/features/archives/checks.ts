/**
 * Checks the lists of one workspace in an archive before anything of it is stored: no id comes twice, and what names a version of
 * something names one that is there.
 */

import { FUNCTION_LIMITS } from '../functions/limits.ts'
import { type ArchiveCounts, invalid } from './format/layout.ts'
import type { Member } from './format/reader.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

export class ArchiveChecks {
  /** What was read so far of the archive, by name. */
  readonly counts: ArchiveCounts
  readonly functions = new VersionChecks('function', FUNCTION_LIMITS.versions.countMax)
  readonly flows = new VersionChecks('flow')
  readonly servers = new VersionChecks('MCP server')
  /** The last id of each list. */
  readonly #last = new Map<string, string>()

  constructor(counts: ArchiveCounts) {
    this.counts = counts
  }

  /**
   * Lists are sorted by their ids, as exports write them, so that of each the last id is enough.
   * @param list of which the id is
   * @throws Problem `archive_invalid` for an id that comes twice, or too early
   */
  next(list: string, id: string, { name }: Member): void {
    const last = this.#last.get(list)
    if (last !== undefined && Buffer.compare(Buffer.from(last), Buffer.from(id)) >= 0)
      throw invalid(`has the id ${shown(id)} twice, or out of order: lists are sorted by their ids.`, name)
    this.#last.set(list, id)
  }

  /** @throws Problem `archive_invalid` if a list names a version that is not there */
  end(): void {
    for (const versions of [this.functions, this.flows, this.servers]) versions.end()
  }
}

const shown = (id: string) => JSON.stringify(id.slice(0, 200))

interface Versioned {
  /** The member that declares it. */
  readonly member: string
  readonly latest: number
  /** Versions that something uses. */
  readonly used: Set<number>
  readonly versions: Set<number>
}

/** Versions of one noun. */
class VersionChecks {
  readonly #noun: string
  readonly #unusedMax: number
  readonly #declared = new Map<string, Versioned>()
  #versions = 0

  /** @param unusedMax versions of one that nothing uses */
  constructor(noun: string, unusedMax = Number.POSITIVE_INFINITY) {
    this.#noun = noun
    this.#unusedMax = unusedMax
  }

  /** @param used versions that have to be there */
  declare(id: string, { latest, used }: { latest: number; used: readonly number[] }, { name }: Member): void {
    if (this.#declared.size >= ARCHIVE_LIMITS.definitionsMax)
      throw invalid(`has one of more than ${ARCHIVE_LIMITS.definitionsMax} of the noun ${this.#noun}.`, name)
    this.#declared.set(id, { member: name, latest, used: new Set(used), versions: new Set() })
  }

  add(id: string, version: number, { name }: Member): void {
    const found = this.#declared.get(id)
    if (found === undefined)
      throw invalid(`has a version of the ${this.#noun} ${shown(id)}, which the archive does not have.`, name)
    const { versions, latest } = found
    if (versions.has(version))
      throw invalid(`has version ${version} of the ${this.#noun} ${shown(id)} twice.`, name)
    if (version > latest)
      throw invalid(
        `has version ${version} of the ${this.#noun} ${shown(id)}, whose latest version is ${latest}.`,
        name,
      )
    this.#versions += 1
    if (this.#versions > ARCHIVE_LIMITS.versionsMax)
      throw invalid(`has one of more than ${ARCHIVE_LIMITS.versionsMax} versions.`, name)
    versions.add(version)
  }

  /** Says that something uses a version; it need not be there. */
  use(id: string, version: number): void {
    const found = this.#declared.get(id)
    if (found?.versions.has(version)) found.used.add(version)
  }

  end(): void {
    for (const [id, { member, used, versions }] of this.#declared) {
      const whose = `the ${this.#noun} ${shown(id)}`
      const gone = [...used].find((version) => !versions.has(version))
      if (gone !== undefined)
        throw invalid(`names version ${gone} of ${whose}, which the archive does not have.`, member)
      const unused = versions.size - used.size
      if (unused > this.#unusedMax)
        throw invalid(
          `has ${whose} with ${unused} versions that nothing uses; the maximum is ${this.#unusedMax}.`,
          member,
        )
    }
  }
}
