/** Stores lines of an import together: as new documents, or as changes of those that exist. None is stored if one is rejected. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { type Actor, callersOf } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { ProblemCode } from '../../../core/problem-catalogue.ts'
import { hiddenIn } from '../../../core/text/visible-text.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { undefinedOnDeadlock } from '../../../infra/postgres/errors.ts'
import { retryContended } from '../../../infra/retry.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { checkCreate, type WantedChange } from '../check-changes.ts'
import { conflictProblem, isWithOther } from '../constraints/conflicting.ts'
import { findHiddenTarget, findIds } from '../references/targets.ts'
import { withCollection } from '../resolve-store.ts'
import type { Right } from '../rules/access.ts'
import { requireAdmitted } from '../rules/permissions.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import {
  type Collection,
  type Conflict,
  type Create,
  createdBy,
  problemOf,
  type Restored,
  unresolved,
  type Written,
} from '../store.ts'
import { checkLine } from '../transfer.ts'
import { quietly, write, writeAll } from '../write.ts'
import { type Entry, idsOf, type LineRequest } from './entries.ts'

export interface StoreOptions {
  readonly collection: string
  /** Of documents that exist: they are left, get the fields of the line, or all of its fields and no others. */
  readonly mode: 'create' | 'upsert' | 'replace'
  /** The unique fields by which an upsert finds the document; none: its id. */
  readonly on: readonly string[]
  /** True if the import publishes no change events. */
  readonly quiet: boolean
  /** True if versions, times and owners are those of the line. */
  readonly keepsSystem: boolean
  /** True if all is taken back. */
  readonly dryRun: boolean
  /** Ends the import at the first line that fails. */
  readonly stopOnError: boolean
}

/** The outcome of one attempt to store entries. */
export type Attempt =
  /** None is stored, because of one of them. */
  { readonly rejected: Problem } | Outcome

export interface Outcome {
  readonly created: number
  /** Documents that exist, and were left. */
  readonly existing: number
  readonly updated: number
  /** Entries that are to be changed: documents of their ids exist. */
  readonly others: readonly Entry[]
  readonly failures: readonly Failure[]
}

export interface Failure {
  readonly entry: Entry
  readonly problem: Problem
}

/** The reply reveals which ids exist, so an import needs the right to read. */
const RIGHTS: readonly Right[] = ['create', 'read']
const rightsFor = ({ mode }: StoreOptions): readonly Right[] =>
  mode === 'create' ? RIGHTS : [...RIGHTS, 'update']

/** Authorizes the caller. @throws Problem `forbidden`, `not_supported` */
export async function openCollection(
  scope: WorkspaceScope,
  options: StoreOptions,
): Promise<Declaration | undefined> {
  const { quiet, keepsSystem, dryRun } = options
  if ((quiet || keepsSystem) && scope.actor.role !== 'service') {
    const detail = `${callersOf(scope.actor)} may not import with quiet or keep: only service keys change documents without events, or set versions, times and owners.`
    throw new Problem('forbidden', { detail })
  }
  const collection = await withCollection(
    scope,
    options.collection,
    rightsFor(options),
    async (found) => found,
  )
  if (dryRun && collection.store.kind !== 'postgresql')
    throw new Problem('not_supported', {
      detail: 'Documents in MongoDB have no dry run, because no transaction takes them back.',
    })
  return collection.declared
}

/** Which of the ids of entries exist. None for a caller who may not read every document: such a line may name no id. */
export async function idsAmong(
  scope: WorkspaceScope,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<ReadonlySet<string>> {
  return withCollection(scope, options.collection, rightsFor(options), async (collection, inside) => {
    if (collection.permissions.read !== true) return new Set<string>()
    return new Set(await findIds(inside, collection, idsOf(entries)))
  })
}

interface Part {
  /**
   * Documents that are new; that exist, or that an earlier line of the chunk makes; in a dry run, that an earlier line would have
   * made.
   */
  readonly kind: 'new' | 'existing' | 'repeated'
  readonly entries: readonly Entry[]
}

/** Divides entries by their documents. @param made ids that a dry run has stored and taken back */
export function partsOf(
  entries: readonly Entry[],
  { existing, made }: { readonly existing: ReadonlySet<string>; readonly made: ReadonlySet<string> },
  { stopOnError, dryRun }: StoreOptions,
): readonly Part[] {
  const seen = new Set(made)
  const kindOf = ({ request }: Entry): Part['kind'] => {
    if (request instanceof Problem) return 'new'
    if (existing.has(request.id)) return 'existing'
    if (seen.has(request.id)) return dryRun ? 'repeated' : 'existing'
    seen.add(request.id)
    return 'new'
  }
  const marked = entries.map((entry) => ({ kind: kindOf(entry), entry }))
  if (!stopOnError)
    return (['new', 'existing', 'repeated'] as const).flatMap((kind) => {
      const part = marked.filter((one) => one.kind === kind).map(({ entry }) => entry)
      return part.length === 0 ? [] : [{ kind, entries: part }]
    })
  const runs: { kind: Part['kind']; entries: Entry[] }[] = []
  for (const { kind, entry } of marked) {
    const run = runs.at(-1)
    if (run?.kind === kind) run.entries.push(entry)
    else runs.push({ kind, entries: [entry] })
  }
  return runs
}

/** Stores entries as new documents. Those whose id exists are left, or are to be changed if the mode says so. */
export async function createEntries(
  scope: WorkspaceScope,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<Attempt> {
  return withCollection(scope, options.collection, rightsFor(options), (collection, inside) =>
    createAll(inside, collection, options, entries),
  )
}

/** Checks anew each time, since the declaration may have changed. */
async function createAll(
  inside: WorkspaceScope,
  collection: Collection,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<Attempt> {
  const check = options.keepsSystem ? checkKept : checkNew
  const expired = await findExpired(inside, collection, entries)
  const { creates, failures } = await checkEach<Create | Restored>(entries, options, (request, budget) => {
    if (expired.has(request.id)) throw hasExpired()
    return check(inside, collection, request, budget)
  })
  const none = { created: 0, existing: 0, updated: 0, others: [], failures }
  if (creates.length === 0) return none
  const added = await store(inside, options.quiet ? quietly(collection) : collection, { options, creates })
  if ('rejected' in added) return added
  const created = added.made.length
  if (options.mode === 'create') return { ...none, created, existing: creates.length - created }
  // Another writer has made the others meanwhile, or an earlier import that had the same key.
  const rest = new Set(creates.map(({ id }) => id))
  for (const id of added.made) rest.delete(id)
  const isOther = ({ request }: Entry) => !(request instanceof Problem) && rest.has(request.id)
  return { ...none, created, others: entries.filter(isOther) }
}

/** The ids that lines name of documents that have expired: they are about to be deleted, so they do not count as existing. */
async function findExpired(
  inside: WorkspaceScope,
  collection: Collection,
  entries: readonly Entry[],
): Promise<ReadonlySet<string>> {
  if (collection.declared?.expiry === undefined || collection.permissions.read !== true) return new Set()
  const named = entries.flatMap(({ request }) =>
    !(request instanceof Problem) && request.isNamed ? [request.id] : [],
  )
  return named.length === 0 ? new Set() : collection.store.expiredAmong(inside, collection, named)
}

const hasExpired = () =>
  new Problem('state_conflict', {
    detail: 'The document of this id has expired, and is not deleted yet.',
    hint: 'Import the line again after a minute, or under another id. A document that others refer to stays until they are gone.',
  })

type Added = { readonly made: readonly string[] }

async function store(
  inside: WorkspaceScope,
  collection: Collection,
  { options, creates }: { readonly options: StoreOptions; readonly creates: readonly (Create | Restored)[] },
): Promise<Added | { readonly rejected: Problem }> {
  const hidden = await findHiddenTarget(inside, creates)
  if (hidden !== undefined) return { rejected: unresolved(hidden.reference) }
  const add = (at: WorkspaceScope): Promise<Added | Conflict> =>
    options.keepsSystem
      ? collection.store.restore(at, collection, creates as readonly Restored[])
      : collection.store.add(at, collection, creates as readonly Create[])
  const isPartial = (added: Added) => added.made.length < creates.length
  // If a line cannot change its document, those after it must not be stored: then all are stored again, one by one.
  const mustBeWhole =
    options.stopOnError &&
    options.mode !== 'create' &&
    creates.length > 1 &&
    collection.store.kind === 'postgresql'
  const attempt = (at: WorkspaceScope) => add(at).catch(undefinedOnDeadlock)
  const isKept = (done: Added | Conflict | undefined) =>
    !options.dryRun && done !== undefined && 'made' in done && !isPartial(done)
  try {
    // Another import may store the same values in another order.
    const added = await retryContended('Others store the same values at once.', () =>
      options.dryRun || mustBeWhole ? keptIf(inside, isKept, attempt) : attempt(inside),
    )
    if ('made' in added) return mustBeWhole && isPartial(added) ? { rejected: overtaken() } : added
    const [only, ...others] = creates
    const isNamed = only !== undefined && others.length === 0 && 'verb' in only && isWithOther(added)
    return { rejected: isNamed ? await conflictProblem(inside, only, added) : problemOf(added) }
  } catch (error) {
    if (error instanceof Problem && CAUSED_BY_ONE_LINE.has(error.code)) return { rejected: error }
    throw error
  }
}

/** Of several lines, which are stored again one by one. */
const overtaken = () =>
  new Problem('state_conflict', { detail: 'Another writer has made some of the documents.' })

/** Thrown to take back what a transaction has made. */
class TakenBack extends Error {}

/** Runs work in a transaction that is rolled back unless the result is to be kept. */
async function keptIf<T>(
  scope: WorkspaceScope,
  isKept: (done: T) => boolean,
  work: (inside: WorkspaceScope) => Promise<T>,
): Promise<T> {
  const done: T[] = []
  try {
    await scope.transaction(async (inside) => {
      const result = await work(inside)
      done.push(result)
      if (!isKept(result)) throw new TakenBack()
    })
  } catch (error) {
    if (!(error instanceof TakenBack)) throw error
  }
  return done[0] as T
}

/** Checks entries, up to the first failure if that ends the import. */
async function checkEach<T>(
  entries: readonly Entry[],
  { stopOnError }: StoreOptions,
  check: (request: LineRequest, budget: CpuBudget) => Promise<T>,
): Promise<{ creates: T[]; failures: Failure[] }> {
  const budget = new CpuBudget(Number.POSITIVE_INFINITY)
  const creates: T[] = []
  const failures: Failure[] = []
  for (const entry of entries) {
    const { request } = entry
    if (stopOnError && failures.length > 0) break
    try {
      if (request instanceof Problem) throw request
      creates.push(await check(request, budget))
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      failures.push({ entry, problem: error })
    }
    await budget.yield()
  }
  return { creates, failures }
}

async function checkNew(
  scope: WorkspaceScope,
  collection: Collection,
  request: LineRequest,
  budget: CpuBudget,
): Promise<Create> {
  const { id, data, system } = request
  requireMayName(collection, request)
  const kept = keptOwner(scope.actor, collection, system._owner)
  const create = await checkCreate(scope, collection, { id, data, budget })
  requireAdmitted(scope, collection, 'read', createdBy(scope.actor, create))
  return kept === undefined ? create : { ...create, owner: kept }
}

function checkKept(
  scope: WorkspaceScope,
  collection: Collection,
  { id, data, system }: LineRequest,
  budget: CpuBudget,
): Promise<Restored> {
  const kept = Object.entries(system).filter(([, value]) => value !== undefined && value !== null)
  const line = { ...data, id, ...Object.fromEntries(kept) }
  return checkLine(scope, collection, line, { budget, ownerOf: (named) => named })
}

/** Changes the documents of entries, which exist; by unique fields, also those that do not. */
export async function changeEntries(
  scope: WorkspaceScope,
  options: StoreOptions,
  entries: readonly Entry[],
): Promise<Attempt> {
  const collection = await withCollection(scope, options.collection, [], async (found) => found)
  const { creates: wanted, failures } = await checkEach(entries, options, async (request) => {
    requireMayName(collection, request)
    return wantedOf(options, request)
  })
  if (wanted.length === 0) return { created: 0, existing: 0, updated: 0, others: [], failures }
  const writing = (inside: WorkspaceScope) => writeTogether(inside, options, wanted)
  try {
    const written = await (options.dryRun ? keptIf(scope, () => false, writing) : writing(scope))
    const created = written.filter((one) => one.created).length
    return { created, existing: 0, updated: written.length - created, others: [], failures }
  } catch (error) {
    // A server error would hit the other lines, too.
    if (error instanceof Problem && error.status < 500) return { rejected: error }
    throw error
  }
}

/** In one transaction, or in MongoDB one after the other. */
async function writeTogether(
  scope: WorkspaceScope,
  { collection, quiet }: StoreOptions,
  wanted: readonly WantedChange[],
): Promise<readonly Written[]> {
  const budget = new CpuBudget(Number.POSITIVE_INFINITY)
  const { store } = await withCollection(scope, collection, [], async (found) => found)
  if (store.kind === 'postgresql') return writeAll(scope, wanted, { budget, quiet })
  const written: Written[] = []
  for (const change of wanted) written.push(await write(scope, change, { budget, quiet }))
  return written
}

function wantedOf({ collection, mode, on }: StoreOptions, { id, data, isNamed }: LineRequest): WantedChange {
  // A document that has the id and another key would be taken for the one that the line makes.
  if (on.length > 0) return { op: 'upsert', collection, id, on, data, mustBeNew: isNamed }
  return mode === 'replace'
    ? { op: 'replace', collection, id, data }
    : { op: 'update', collection, id, data, unset: [] }
}

/** Which ids exist is not for callers who may not read every document. @throws Problem `validation_failed` */
function requireMayName({ permissions }: Collection, { isNamed }: LineRequest): void {
  if (isNamed && permissions.read !== true) throw idRefused()
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
