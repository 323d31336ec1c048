/** Imports documents: stores lines in chunks of one transaction, and finds those that fail. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { Actor } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { ProblemCode } from '../../../core/problem-catalogue.ts'
import { hiddenIn } from '../../../core/text/visible-text.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { undefinedOnDeadlock } from '../../../infra/postgres/errors.ts'
import { retryContended } from '../../../infra/retry.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { checkCreate } from '../check-changes.ts'
import { conflictProblem, isWithOther } from '../constraints/conflicting.ts'
import { type Column, columnAt } from '../csv/columns.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { findHiddenTarget } from '../references/targets.ts'
import { withCollection } from '../resolve-store.ts'
import type { Right } from '../rules/access.ts'
import { requireAdmitted } from '../rules/permissions.ts'
import { type Collection, type Create, createdBy, problemOf, unresolved } from '../store.ts'
import type { Entry, ReadEntries } from './entries.ts'

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
  failed: number
  /** The first lines that failed. */
  readonly errors: LineError[]
}

interface ImportOptions {
  readonly collection: string
  readonly read: ReadEntries
  /** Ends the import at the first line that fails. */
  readonly stopOnError: boolean
}

/** The reply reveals which ids exist, so an import needs the right to read. */
const RIGHTS: readonly Right[] = ['create', 'read']

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
    throw problem.with({ imported: running.report })
  }
}

/** The outcome of one attempt to store entries. */
type Attempt =
  /** None is stored, because of one of them. */
  { readonly rejected: Problem } | Stored
interface Stored {
  readonly created: number
  readonly existing: number
  readonly failures: readonly Failure[]
}
interface Failure {
  readonly line: number
  readonly problem: Problem
}

class Import {
  readonly report: Report = { lines: 0, created: 0, existing: 0, failed: 0, errors: [] }
  readonly #scope: WorkspaceScope
  readonly #options: ImportOptions
  #columns: readonly Column[] = []

  constructor(scope: WorkspaceScope, options: ImportOptions) {
    this.#scope = scope
    this.#options = options
  }

  async run(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    const { collection, read } = this.#options
    // Authorizes the caller before it reads the body.
    const declared = await withCollection(this.#scope, collection, RIGHTS, async (found) => found.declared)
    let entries: Entry[] = []
    let bytes = 0
    let linesRead = 0
    for await (const arrived of read(chunks, declared)) {
      linesRead = arrived.line
      this.#columns = arrived.columns ?? []
      for (const entry of arrived.entries) {
        entries.push(entry)
        bytes += entry.bytes
        if (entries.length < COLLECTION_LIMITS.importChunkLines && bytes < COLLECTION_LIMITS.importChunkBytes)
          continue
        await this.#store(entries)
        entries = []
        bytes = 0
      }
    }
    if (entries.length > 0) await this.#store(entries)
    this.report.lines = linesRead
  }

  /** Stores entries; if they are rejected, stores each half by itself, down to the line that fails. */
  async #store(entries: readonly Entry[]): Promise<void> {
    const attempt = await withCollection(
      this.#scope,
      this.#options.collection,
      RIGHTS,
      (collection, inside) => this.#attempt(inside, collection, entries),
    )
    const line = entries.at(-1)?.line ?? 0
    if (!('rejected' in attempt)) return this.#record(line, attempt)
    const problem = attempt.rejected
    if (entries.length === 1) {
      if (problem.code === 'quota_exceeded') throw problem
      return this.#record(line, { created: 0, existing: 0, failures: [{ line, problem }] })
    }
    const half = Math.ceil(entries.length / 2)
    await this.#store(entries.slice(0, half))
    await this.#store(entries.slice(half))
  }

  /** Checks anew each time, since the declaration may have changed. */
  async #attempt(
    inside: WorkspaceScope,
    collection: Collection,
    entries: readonly Entry[],
  ): Promise<Attempt> {
    const { creates, failures } = await this.#check(collection, entries)
    if (creates.length === 0) return { created: 0, existing: 0, failures }
    const hidden = await findHiddenTarget(inside, creates)
    if (hidden !== undefined) return { rejected: unresolved(hidden.reference) }
    try {
      // Another import may store the same values in another order.
      const added = await retryContended('Others store the same values at once.', () =>
        collection.store.add(inside, collection, creates).catch(undefinedOnDeadlock),
      )
      if (!('made' in added)) {
        const [only, ...others] = creates
        const isNamed = only !== undefined && others.length === 0 && isWithOther(added)
        return { rejected: isNamed ? await conflictProblem(inside, only, added) : problemOf(added) }
      }
      return { created: added.made, existing: creates.length - added.made, failures }
    } catch (error) {
      if (error instanceof Problem && CAUSED_BY_ONE_LINE.has(error.code)) return { rejected: error }
      throw error
    }
  }

  /** Checks the entries, up to the first failure if that ends the import. */
  async #check(
    collection: Collection,
    entries: readonly Entry[],
  ): Promise<{ creates: Create[]; failures: Failure[] }> {
    const budget = new CpuBudget(Number.POSITIVE_INFINITY)
    const creates: Create[] = []
    const failures: Failure[] = []
    for (const { line, request } of entries) {
      if (this.#options.stopOnError && failures.length > 0) break
      try {
        if (request instanceof Problem) throw request
        const { id, data, isNamed, system } = request
        // Which ids exist is not for callers who may not read every document.
        if (isNamed && collection.permissions.read !== true) throw idRefused()
        const kept = keptOwner(this.#scope.actor, collection, system._owner)
        const create = await checkCreate(this.#scope, collection, { id, data, budget })
        requireAdmitted(this.#scope, collection, 'read', createdBy(this.#scope.actor, create))
        creates.push(kept === undefined ? create : { ...create, owner: kept })
      } catch (error) {
        if (!(error instanceof Problem)) throw error
        failures.push({ line, problem: error })
      }
      await budget.yield()
    }
    return { creates, failures }
  }

  #record(line: number, { created, existing, failures }: Stored): void {
    const { report } = this
    report.created += created
    report.existing += existing
    report.failed += failures.length
    const remaining = CORE_LIMITS.diagnosticsReturnedMax - report.errors.length
    report.errors.push(...failures.slice(0, remaining).map((failure) => lineError(failure, this.#columns)))
    const fatal = this.#options.stopOnError ? failures[0] : undefined
    report.lines = fatal?.line ?? line
    if (fatal !== undefined) throw withLine(fatal)
  }
}

const idRefused = () =>
  new Problem('validation_failed', {
    detail: 'An id is assigned by the server, unless you may read the whole collection.',
    errors: [{ in: 'body', name: 'id', pointer: '/id', detail: 'is assigned by the server' }],
  })

/**
 * The owner that a line names, which a service key keeps: an export that it imports is a backup. All others own what they
 * import, so a line may name no other owner.
 * @returns undefined if the server sets the owner, as it does for a document that is created alone
 */
function keptOwner(
  { role, user }: Pick<Actor, 'role' | 'user'>,
  { declared }: Collection,
  named: unknown,
): string | undefined {
  if (named === undefined) return undefined
  if (user !== undefined || role !== 'service') {
    if (named === user?.id) return undefined
    throw ownerRefused('is set by the server')
  }
  if (named === null) return undefined
  if (declared === undefined) throw ownerRefused('needs a declared collection')
  const isId = typeof named === 'string' && named !== '' && named.length <= CORE_LIMITS.subjectCharsMax
  if (!isId || hiddenIn(named) !== undefined) throw ownerRefused('is not the id of a user')
  return named
}

const ownerRefused = (fault: string) => bodyProblem('/_owner', fault, `/_owner ${fault}`)

/** Problems that the database raises for a whole statement although one line causes them. */
const CAUSED_BY_ONE_LINE: ReadonlySet<ProblemCode> = new Set(['value_invalid', 'quota_exceeded'])

function lineError({ line, problem }: Failure, columns: readonly Column[]): LineError {
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

function withLine({ line, problem }: Failure): Problem {
  const { code, message, errors, cause, members } = problem
  const detail = `Line ${line}: ${message}`
  return new Problem(code, { detail, errors, cause, members: { ...members, line } })
}
