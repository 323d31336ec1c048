/** Imports documents: stores lines in chunks of one transaction, and finds those that fail. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { ProblemCode } from '../../../core/problem-catalogue.ts'
import { type Column, columnAt } from '../csv/columns.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Entry, idsOf, type ReadEntries } from './entries.ts'
import { unresolvedAmong } from './later-lines.ts'
import {
  type Attempt,
  changeEntries,
  createEntries,
  type Failure,
  idsAmong,
  type Outcome,
  openCollection,
  partsOf,
  type StoreOptions,
} from './store-entries.ts'
import { behindOther, documentKey, WaitingLines } from './waiting-lines.ts'

interface LineError {
  readonly line: number
  readonly code: ProblemCode
  readonly detail: string
  readonly pointer?: string
  /** Of CSV. */
  readonly column?: string
}

/** The progress of an import. */
interface Report {
  /** Lines that were processed, blank ones included: a client continues with the line after. */
  lines: number
  created: number
  /** Documents whose id existed. */
  existing: number
  /** Documents that the lines have changed, or that had these values; absent if existing ones are left. */
  updated?: number
  failed: number
  /** The first lines that failed. */
  readonly errors: LineError[]
}

interface ImportOptions extends StoreOptions {
  readonly read: ReadEntries
}

type Store = (entries: readonly Entry[]) => Promise<Attempt>

const NOTHING: Outcome = { created: 0, existing: 0, updated: 0, others: [], failures: [] }

/**
 * Stores each line as it arrives. Sending the same lines again creates nothing twice if the ids are the same.
 * @throws Problem that ended it early, with the {@link Report} as `imported`
 */
export async function importLines(
  scope: WorkspaceScope,
  options: ImportOptions,
  chunks: AsyncIterable<Uint8Array>,
): Promise<Report> {
  const running = new Import(scope, options)
  try {
    await running.run(chunks)
    return running.report
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem('internal', { cause: error })
    throw problem.with({ imported: running.reportSoFar() })
  }
}

class Import {
  readonly report: Report
  readonly #scope: WorkspaceScope
  readonly #options: ImportOptions
  #columns: readonly Column[] = []
  #declared: Declaration | undefined
  readonly #waiting = new WaitingLines((entry) => documentKey(entry, this.#options.on, this.#declared))
  #isAgain = false
  /** Ids of a dry run: of all lines, and of those that were stored and taken back. */
  readonly #ids = new Set<string>()
  readonly #made = new Set<string>()

  constructor(scope: WorkspaceScope, options: ImportOptions) {
    this.#scope = scope
    this.#options = options
    const counts = options.mode === 'create' ? {} : { updated: 0 }
    this.report = { lines: 0, created: 0, existing: 0, ...counts, failed: 0, errors: [] }
  }

  /** The report of a request that ends early: `lines` ends before the first line that still waits to be stored. */
  reportSoFar(): Report {
    const lines = Math.min(this.report.lines, this.#waiting.linesBefore ?? this.report.lines)
    return { ...this.report, lines }
  }

  async run(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const { read } = this.#options
    // Authorizes the caller before it reads the body.
    this.#declared = await openCollection(this.#scope, this.#options)
    let entries: Entry[] = []
    let bytes = 0
    let linesRead = 0
    for await (const arrived of read(chunks, this.#declared)) {
      linesRead = arrived.line
      this.#columns = arrived.columns ?? []
      if (this.#options.dryRun) this.#noteDryRun(arrived.entries)
      for (const entry of arrived.entries) {
        entries.push(entry)
        bytes += entry.bytes
        if (entries.length < COLLECTION_LIMITS.importChunkLines && bytes < COLLECTION_LIMITS.importChunkBytes)
          continue
        await this.#storeChunk(entries)
        entries = []
        bytes = 0
      }
    }
    if (entries.length > 0) await this.#storeChunk(entries)
    await this.#storeWaiting()
    this.report.lines = linesRead
  }

  /** Stores a chunk, and lets lines wait that refer to later ones. */
  async #storeChunk(arrived: readonly Entry[]): Promise<void> {
    const { mode, on, dryRun } = this.#options
    const last = arrived.at(-1)?.lastLine ?? 0
    const open = await unresolvedAmong(this.#scope, this.#options, arrived)
    for (const [entry, problem] of open) this.#wait(entry, problem)
    const entries = arrived.filter((entry) => !open.has(entry))
    if (entries.length === 0) return
    if (on.length > 0) await this.#store(entries, this.#change)
    else if (mode === 'create' && !dryRun) await this.#store(entries, this.#create)
    else await this.#storeParts(entries)
    if (!this.#isAgain) this.report.lines = last
  }

  async #storeParts(all: readonly Entry[]): Promise<void> {
    const leavesExisting = this.#options.mode === 'create'
    const existing = leavesExisting ? new Set<string>() : await idsAmong(this.#scope, this.#options, all)
    for (const { kind, entries } of partsOf(all, { existing, made: this.#made }, this.#options)) {
      if (kind === 'repeated') await this.#storeRepeated(entries)
      else await this.#store(entries, kind === 'new' ? this.#create : this.#change)
    }
  }

  /** Of a dry run: if the earlier lines of these ids have failed, the first of these would make the document. */
  async #storeRepeated(entries: readonly Entry[]): Promise<void> {
    const isMade = ({ request }: Entry) => !(request instanceof Problem) && this.#made.has(request.id)
    const [repeated, others] = [entries.filter(isMade), entries.filter((entry) => !isMade(entry))]
    await this.#store(repeated, this.#repeat)
    for (const entry of others) await this.#store([entry], isMade(entry) ? this.#repeat : this.#create)
  }

  readonly #change: Store = (entries) => changeEntries(this.#scope, this.#options, entries)

  readonly #create: Store = async (entries) => {
    const attempt = await createEntries(this.#scope, this.#options, entries)
    if (!this.#options.dryRun || 'rejected' in attempt) return attempt
    const failed = new Set(attempt.failures.map(({ entry }) => entry))
    for (const id of idsOf(entries.filter((entry) => !failed.has(entry)))) this.#made.add(id)
    return attempt
  }

  /** Checks lines of a dry run as new ones, and counts them as what they would be after those before. */
  readonly #repeat: Store = async (entries) => {
    const attempt = await createEntries(this.#scope, this.#options, entries)
    if ('rejected' in attempt) return attempt
    return { ...this.#repeated(entries.length - attempt.failures.length), failures: attempt.failures }
  }

  #repeated(count: number): Outcome {
    const isLeft = this.#options.mode === 'create'
    return { ...NOTHING, existing: isLeft ? count : 0, updated: isLeft ? 0 : count }
  }

  /** Stores entries; if they are rejected, stores each half by itself, down to the line that fails. */
  async #store(arrived: readonly Entry[], store: Store): Promise<void> {
    const entries = arrived.filter((entry) => !this.#waitBehind(entry))
    if (entries.length === 0) return
    const attempt = await store(entries)
    if (!('rejected' in attempt)) {
      this.#record({ ...attempt, failures: [] })
      await this.#store(attempt.others, this.#change)
      this.#record({ ...NOTHING, failures: attempt.failures })
      return
    }
    const [only] = entries
    if (entries.length === 1 && only !== undefined) {
      if (store === this.#change && this.#isGone(attempt.rejected))
        await this.#createGone(only, attempt.rejected)
      else this.#reject(only, attempt.rejected)
      return
    }
    const half = Math.ceil(entries.length / 2)
    await this.#store(entries.slice(0, half), store)
    // The lines before a part that fails are done only if the parts of a chunk are stored in their order.
    if (this.#isInOrder) this.report.lines = entries[half - 1]?.lastLine ?? 0
    await this.#store(entries.slice(half), store)
  }

  /** True if the document of a line is not there: it was deleted, or the earlier line that would have made it has failed. */
  #isGone({ code }: Problem): boolean {
    return code === 'not_found' && this.#options.on.length === 0
  }

  async #createGone(entry: Entry, problem: Problem): Promise<void> {
    const attempt = await this.#create([entry])
    if ('rejected' in attempt) this.#reject(entry, attempt.rejected)
    else if (attempt.others.length > 0) this.#fail(entry, problem)
    else this.#record(attempt)
  }

  get #isInOrder(): boolean {
    const { mode, on, stopOnError } = this.#options
    return !this.#isAgain && (mode === 'create' || on.length > 0 || stopOnError)
  }

  /** A line may refer to one of the other half, or to a later one. */
  #reject(entry: Entry, problem: Problem): void {
    if (problem.code === 'quota_exceeded') throw problem
    if (!this.#options.stopOnError && this.#isOfFile(problem)) this.#wait(entry, problem)
    else this.#fail(entry, problem)
  }

  /** True for a reference to a document that the file may have. */
  #isOfFile({ code, errors: [error] }: Problem): boolean {
    const { collection: own } = this.#options
    if (code !== 'reference_not_found') return false
    return (
      this.#declared?.references.some(
        ({ field, collection }) => field === error?.name && collection === own,
      ) === true
    )
  }

  #fail(entry: Entry, problem: Problem): void {
    this.#record({ ...NOTHING, failures: [{ entry, problem }] })
  }

  /** @param problem that the line has if its document never comes; none if it waits for an earlier line */
  #wait(entry: Entry, problem?: Problem): void {
    if (!this.#waiting.add(entry, problem)) this.#fail(entry, problem ?? behindOther())
  }

  /** Lets a line wait if an earlier one of its document does. A dry run keeps nothing that could be overwritten. */
  #waitBehind(entry: Entry): boolean {
    const isBehind = !this.#options.dryRun && this.#waiting.isBehind(entry)
    if (isBehind) this.#wait(entry)
    return isBehind
  }

  /** Stores the lines that wait. Lines whose document does not come fail, and the ones behind them are stored then. */
  async #storeWaiting(): Promise<void> {
    this.#isAgain = true
    while (this.#waiting.size > 0) {
      if (!this.#options.dryRun) await this.#storeAgain()
      for (const { entry, problem } of this.#waiting.takeLost()) {
        const isMet = this.#options.dryRun && this.#namesTarget(entry, problem)
        if (isMet) this.#countDry(entry)
        else this.#fail(entry, problem)
      }
    }
  }

  /** Counts a line of a dry run that could not be stored before those that come after it. */
  #countDry({ request }: Entry): void {
    if (request instanceof Problem) return
    this.#record(this.#made.has(request.id) ? this.#repeated(1) : { ...NOTHING, created: 1 })
    this.#made.add(request.id)
  }

  /** From the last line to the first, since each refers to a later one; again as long as that helps. */
  async #storeAgain(): Promise<void> {
    const size = COLLECTION_LIMITS.importChunkLines
    for (let before = Number.POSITIVE_INFINITY; this.#waiting.size < before; ) {
      const all = this.#waiting.entries
      before = all.length
      for (let end = all.length; end > 0; end -= size) {
        const chunk = all.slice(Math.max(0, end - size), end)
        await this.#waiting.release(chunk, () => this.#storeChunk(chunk))
      }
    }
  }

  /** True if the file has the document that a line of a dry run refers to. */
  #namesTarget({ request }: Entry, { errors: [error] }: Problem): boolean {
    if (request instanceof Problem || error === undefined) return false
    const id = Object.hasOwn(request.data, error.name) ? request.data[error.name] : undefined
    return typeof id === 'string' && this.#ids.has(id.toLowerCase())
  }

  #noteDryRun(entries: readonly Entry[]): void {
    for (const id of idsOf(entries)) this.#ids.add(id)
    if (this.#ids.size <= COLLECTION_LIMITS.importDryRunLines) return
    const detail = `A dry run takes at most ${COLLECTION_LIMITS.importDryRunLines} lines. Try the first ones.`
    throw new Problem('body_too_large', { detail })
  }

  #record({ created, existing, updated, failures }: Outcome): void {
    const { report } = this
    report.created += created
    report.existing += existing
    if (report.updated !== undefined) report.updated += updated
    report.failed += failures.length
    const remaining = CORE_LIMITS.diagnosticsReturnedMax - report.errors.length
    report.errors.push(...failures.slice(0, remaining).map((failure) => lineError(failure, this.#columns)))
    const fatal = this.#options.stopOnError ? failures[0] : undefined
    if (fatal === undefined) return
    report.lines = fatal.entry.lastLine
    throw withLine(fatal)
  }
}

function lineError({ entry: { line }, problem }: Failure, columns: readonly Column[]): LineError {
  const { code, message, errors } = problem
  const pointer = errors[0]?.pointer
  const detail = message.slice(0, COLLECTION_LIMITS.importMessageCharsMax)
  const column = pointer === undefined ? undefined : columnAt(columns, pointer)
  return {
    ...{ line, code, detail },
    ...(pointer !== undefined && { pointer }),
    ...(column !== undefined && { column }),
  }
}

function withLine({ entry: { line }, problem }: Failure): Problem {
  const { code, message, errors, cause, members } = problem
  const detail = `Line ${line}: ${message}`
  return new Problem(code, { detail, errors, cause, members: { ...members, line } })
}
