/** An import under way: lines gathered to chunks, each one transaction, and the guilty lines of a refused one found. */

import { LIMITS } from '../../../core/limits.ts'
import { Problem, type ProblemCode } from '../../../core/problem.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { CpuBudget } from '../../../platform/turns.ts'
import { judgedApart } from '../planning.ts'
import { refusalOf } from '../refusals.ts'
import type { Collection, Create, Store } from '../store.ts'
import { inCollection, type Right } from '../stores.ts'
import { planAlone } from '../wishes.ts'
import { type Entry, entryOf, type IdOf } from './entries.ts'
import { linesOf } from './lines.ts'

interface LineFault {
  readonly line: number
  readonly code: ProblemCode
  readonly detail: string
  readonly pointer?: string
}

/** How far an import has come. */
export interface Report {
  /** Lines that were dealt with, blank ones included: one that ended early goes on with the line after. */
  lines: number
  created: number
  /** Their id was there already. */
  existing: number
  failed: number
  /** The first of those that failed. */
  readonly errors: LineFault[]
}

export interface Into {
  readonly collection: string
  readonly idOf: IdOf
  /** Whether the first line that fails ends it. */
  readonly stops: boolean
}

/** The reply tells which ids were there, so who may not read may not import either. */
const RIGHTS: readonly Right[] = ['create', 'read']

/**
 * Stores each line as it comes. Whoever sends the same again makes nothing twice, where ids are the same.
 * @throws Problem whatever ended it early, with the {@link Report} as `imported`
 */
export async function importLines(
  scope: WorkspaceScope,
  into: Into,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Report> {
  const running = new Import(scope, into)
  try {
    await running.take(chunks)
    return running.report
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem('internal', { cause: error })
    throw problem.with({ imported: running.report })
  }
}

/** What became of some entries. `refused`: none of them is stored, and the reason lies with one of them. */
type Tried = { readonly refused: Problem } | Settled
interface Settled {
  readonly made: number
  readonly existing: number
  readonly faults: readonly Fault[]
}
interface Fault {
  readonly line: number
  readonly problem: Problem
}

class Import {
  readonly report: Report = { lines: 0, created: 0, existing: 0, failed: 0, errors: [] }
  readonly #scope: WorkspaceScope
  readonly #into: Into
  #gathered: Entry[] = []
  #bytes = 0

  constructor(scope: WorkspaceScope, into: Into) {
    this.#scope = scope
    this.#into = into
  }

  async take(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    // Refused before any of it is read.
    await inCollection(this.#scope, this.#into.collection, RIGHTS, async () => {})
    let read = 0
    for await (const lines of linesOf(chunks, LIMITS.bodyBytesMax)) {
      for (const line of lines) {
        read = line.number
        const entry = entryOf(line, this.#into.idOf)
        if (entry !== undefined) await this.#gather(entry, line.bytes?.byteLength ?? 0)
      }
    }
    await this.#flush()
    this.report.lines = read
  }

  async #gather(entry: Entry, bytes: number): Promise<void> {
    this.#gathered.push(entry)
    this.#bytes += bytes
    const full = this.#gathered.length >= LIMITS.importChunkLines || this.#bytes >= LIMITS.importChunkBytes
    if (full) await this.#flush()
  }

  async #flush(): Promise<void> {
    const entries = this.#gathered
    this.#gathered = []
    this.#bytes = 0
    if (entries.length > 0) await this.#settle(entries)
  }

  /** Where some are refused, each half is tried by itself, down to the line that is guilty. */
  async #settle(entries: readonly Entry[]): Promise<void> {
    const { collection: name } = this.#into
    const tried = await inCollection(this.#scope, name, RIGHTS, ({ store, collection }) =>
      this.#attempt(store, collection, entries),
    )
    const line = entries.at(-1)?.line ?? 0
    if (!('refused' in tried)) return this.#note(line, tried)
    if (entries.length === 1) {
      if (tried.refused.code === 'quota_exceeded') throw tried.refused
      return this.#note(line, { made: 0, existing: 0, faults: [{ line, problem: tried.refused }] })
    }
    const half = Math.ceil(entries.length / 2)
    await this.#settle(entries.slice(0, half))
    await this.#settle(entries.slice(half))
  }

  /** Planned anew each time: what the collection is declared as may have changed. */
  async #attempt(store: Store, collection: Collection, entries: readonly Entry[]): Promise<Tried> {
    const { creates, faults } = await planned(this.#scope, { collection, entries, stops: this.#into.stops })
    if (creates.length === 0) return { made: 0, existing: 0, faults }
    try {
      const added = await store.add(this.#scope, collection, creates)
      if ('made' in added) return { made: added.made, existing: creates.length - added.made, faults }
      return { refused: refusalOf(added) ?? new Problem('conflict') }
    } catch (error) {
      if (error instanceof Problem && OF_A_LINE.has(error.code)) return { refused: error }
      throw error
    }
  }

  #note(line: number, { made, existing, faults }: Settled): void {
    const { report } = this
    report.created += made
    report.existing += existing
    report.failed += faults.length
    const room = LIMITS.faultsShownMax - report.errors.length
    report.errors.push(...faults.slice(0, room).map(faultOf))
    const [first] = faults
    const stopped = this.#into.stops ? first : undefined
    report.lines = stopped?.line ?? line
    if (stopped !== undefined) throw located(stopped)
  }
}

/** What the database refuses a whole statement for and one line is guilty of. */
const OF_A_LINE: ReadonlySet<ProblemCode> = new Set(['value_invalid', 'quota_exceeded'])

/** @param stops whether what comes after the first fault is left out */
async function planned(
  scope: WorkspaceScope,
  { collection, entries, stops }: { collection: Collection; entries: readonly Entry[]; stops: boolean },
): Promise<{ creates: Create[]; faults: Fault[] }> {
  const turns = new CpuBudget(Number.POSITIVE_INFINITY)
  const creates: Create[] = []
  const faults: Fault[] = []
  for (const { line, asked } of entries) {
    if (stops && faults.length > 0) break
    try {
      if (asked instanceof Problem) throw asked
      const { data } = asked
      const plan = turns.run(() => planAlone(collection, { op: 'create', data }, asked.id))
      const { change } = await judgedApart(scope, plan, turns)
      if (change.verb === 'create') creates.push(change)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      faults.push({ line, problem: error })
    }
    await turns.yield()
  }
  return { creates, faults }
}

function faultOf({ line, problem }: Fault): LineFault {
  const { code, message, errors } = problem
  const pointer = errors[0]?.pointer
  const detail = message.slice(0, LIMITS.importFaultCharsMax)
  return { line, code, detail, ...(pointer !== undefined && { pointer }) }
}

function located({ line, problem }: Fault): Problem {
  const { code, message, errors, cause, members } = problem
  const detail = `Line ${line}: ${message}`
  return new Problem(code, { detail, errors, cause, members: { ...members, line } })
}
