/**
 * Writes documents: plans all changes (`plan.ts`, which also validates them), writes all or none, and plans again if
 * another writer came first.
 */

import { requireHeld } from '../../access/completion.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { isPublicRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { Json } from '../../core/work.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { refusal } from '../../infra/postgres/errors.ts'
import { retryContended } from '../../infra/retry.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import {
  type DocumentCommand,
  isBlindWrite,
  planAll,
  planIndependent,
  planSequential,
  RIGHTS,
  type ValidatedChange,
  type WriteTask,
  withOpIndex,
} from './plan.ts'
import { BY_ID, type Filter, type Test } from './query/filter.ts'
import { withCollections, withoutRules } from './resolve-store.ts'
import type { Right } from './rules/access.ts'
import { admits } from './rules/permissions.ts'
import type { Index } from './schemas/api-types.ts'
import { type Format, sortKey } from './schemas/canonical-text.ts'
import {
  type Collection,
  type Once,
  type Outcome,
  problemOf,
  type Store,
  type Stored,
  versionMismatch,
} from './store.ts'

/** A command, and the collection that it is for. */
export interface WriteRequest {
  readonly collection: string
  readonly command: DocumentCommand
}

interface WriteOptions {
  /** The CPU budget of a request that does more than this write. */
  readonly budget?: CpuBudget
  /** Of a request with an idempotency key. */
  readonly once?: Once<WriteResult> | undefined
}

/** The result of a command. */
export interface WriteResult {
  readonly id: string
  readonly created: boolean
  /** The version of the document now, or when it was deleted. */
  readonly version: number
  /** The document after a single command other than `delete`. */
  readonly stored?: Stored
}

/**
 * Executes all commands or none, in one round trip if no document has to be read first.
 * @throws Problem of the first command that fails; if there are several, `op_index` is its index
 */
export function writeAll(
  scope: WorkspaceScope,
  requests: readonly WriteRequest[],
  { budget = new CpuBudget(), once }: WriteOptions = {},
): Promise<WriteResult[]> {
  // The ids are the same in every attempt, also of an activity.
  const ids = requests.map(({ command }) =>
    command.op === 'create' || command.op === 'upsert' ? scope.uuid() : '',
  )
  const rights = new Map<string, readonly Right[]>()
  for (const { collection, command } of requests)
    rights.set(collection, [...(rights.get(collection) ?? []), ...RIGHTS[command.op]])
  return withCollections(scope, rights, async (at, inside) => {
    const tasks = requests.map(({ collection, command }, index) => ({
      ...at(collection),
      command,
      id: ids[index] ?? '',
    }))
    const { attemptsMax, ...bounds } = INFRA_LIMITS.contention
    const attemptsOfBatch = Math.max(2, Math.floor(COLLECTION_LIMITS.batchAttemptsMax / tasks.length))
    return retryContended(
      'Too many writers change this document at once.',
      () => attemptAll(inside, tasks, { budget, once }),
      { ...bounds, attemptsMax: Math.min(attemptsMax, attemptsOfBatch) },
    )
  })
}

/** Executes one command. */
export async function write(
  scope: WorkspaceScope,
  collection: string,
  command: DocumentCommand,
  options?: WriteOptions,
): Promise<WriteResult> {
  const [result] = await writeAll(scope, [{ collection, command }], options)
  if (result === undefined) throw new TypeError('a command must have one outcome')
  return result
}

/** @returns undefined if another writer came first and all is to be planned again */
async function attemptAll(
  scope: WorkspaceScope,
  tasks: readonly WriteTask[],
  { budget, once }: WriteOptions & { readonly budget: CpuBudget },
): Promise<WriteResult[] | undefined> {
  const earlier = await madeEarlier(scope, tasks, once)
  if (earlier !== undefined) return earlier
  const isBlind = tasks.every(({ collection, command }) => isBlindWrite(collection, command))
  const plan = isBlind ? planIndependent : planSequential(scope, await readCurrent(scope, tasks))
  const planned = await planAll(scope, tasks, plan, budget)
  const writes = planned.map(({ change }, index) => ({ collection: taskAt(tasks, index).collection, change }))
  const resultsOf = (made: readonly (Outcome | undefined)[]) =>
    planned.map((plan, index) => resultOf(plan, made[index]))
  const outcomes = await storeOf(tasks)
    .write(scope, writes, once && { ...once, keep: (made) => once.keep(resultsOf(made)) })
    .catch(undefinedOnDeadlock)
  if (outcomes === undefined) return undefined
  const failed = outcomes.findIndex((outcome) => outcome !== undefined && problemOf(outcome) !== undefined)
  const rejected = outcomes[failed]
  if (rejected === undefined) return resultsOf(outcomes)
  const task = taskAt(tasks, failed)
  if (!isBlind && (await isTransient(scope, task, rejected))) return undefined
  throw withOpIndex(await problemNow(scope, task, planned[failed], rejected), failed, tasks)
}

/** The result of what an earlier attempt of the request has made in a store that shares no transaction with its claim. */
async function madeEarlier(
  scope: WorkspaceScope,
  [task, ...others]: readonly WriteTask[],
  once: Once<WriteResult> | undefined,
): Promise<WriteResult[] | undefined> {
  if (once === undefined || task === undefined || others.length > 0) return undefined
  const { store, collection, command } = task
  const { op } = command
  const id = 'id' in command ? command.id : task.id
  const verb = op === 'create' || op === 'delete' ? op : 'update'
  const made = await store.findMade?.(scope, { collection, id, verb }, once.effect)
  if (made === undefined) return undefined
  const results = [{ id, created: op === 'create', ...made }]
  requireHeld(await scope.rows(once.keep(results)))
  return results
}

/** After a deadlock of two batches, the one that PostgreSQL has cancelled is planned again. */
function undefinedOnDeadlock(error: unknown): undefined {
  if (refusal(error) !== 'deadlock') throw error
}

/** True if the command may succeed when it is planned again on the current document. */
async function isTransient(scope: WorkspaceScope, task: WriteTask, rejected: Outcome): Promise<boolean> {
  const { command } = task
  if (!('taken' in rejected)) return command.op !== 'create' && !isTooLarge(rejected)
  if (command.op !== 'upsert' || !rejected.taken.every((field) => command.on.includes(field))) return false
  return !(await isHeldOutOfSight(scope, task))
}

/** True if a document that the caller may not read has the key of an upsert: the caller can neither update nor create it. */
async function isHeldOutOfSight(scope: WorkspaceScope, task: WriteTask): Promise<boolean> {
  if (!isPublicRole(scope.actor.role)) return false
  const { service, collection } = withoutRules(scope, task.collection)
  const holder = await findByKey(service, { ...task, collection })
  return holder !== undefined && !admits(task.collection.permissions.read, holder)
}

const isTooLarge = (outcome: Outcome) =>
  'current' in outcome && outcome.bytes > COLLECTION_LIMITS.documentBytesMax

function taskAt(tasks: readonly WriteTask[], index: number): WriteTask {
  const task = tasks[index]
  if (task === undefined) throw new TypeError('the task does not exist')
  return task
}

/** The store of all tasks, since a transaction cannot span stores. */
function storeOf(tasks: readonly WriteTask[]): Store {
  const { store } = taskAt(tasks, 0)
  if (tasks.every((task) => task.store.kind === store.kind)) return store
  throw new Problem('atomic_not_supported', { detail: 'The collections are in different stores.' })
}

function resultOf({ change, warnings }: ValidatedChange, outcome: Outcome | undefined): WriteResult {
  if (outcome === undefined || !('version' in outcome)) throw new TypeError('a change must have an outcome')
  const { version, stored } = outcome
  const result = { id: change.id, created: change.verb === 'create', version }
  if (stored === undefined) return result
  return { ...result, stored: warnings.length === 0 ? stored : { ...stored, warnings } }
}

/** Reads the current document of each task; undefined for a new one. */
async function readCurrent(
  scope: WorkspaceScope,
  tasks: readonly WriteTask[],
): Promise<(Stored | undefined)[]> {
  const locations = tasks.flatMap(({ collection, command }) =>
    'id' in command ? [{ collection, id: command.id }] : [],
  )
  const documents = locations.length === 0 ? [] : await storeOf(tasks).read(scope, locations)
  return Promise.all(
    tasks.map(async (task, index) => {
      if ('id' in task.command) return documents.shift()
      return findByKey(scope, task).catch((error: unknown) => {
        throw withOpIndex(error, index, tasks)
      })
    }),
  )
}

/** Finds the existing document of an upsert. */
async function findByKey(
  scope: WorkspaceScope,
  { store, collection, command }: WriteTask,
): Promise<Stored | undefined> {
  if (command.op !== 'upsert') return undefined
  const of = uniqueKeyOf(collection, command.on, command.data).map(([name, value]) =>
    equalTo(name, value, collection.declared?.formats.get(name)),
  )
  const { rows } = await store.list(scope, collection, {
    filter: { kind: 'all', of },
    order: BY_ID,
    limit: 1,
  })
  return rows[0]
}

/** Compares texts of a format by their canonical text. */
function equalTo(name: string, value: Json, format: Format | undefined): Filter {
  const test: Test = { op: 'in', values: [[sortKey(format, value) as Json]] }
  return { kind: 'test', path: [name], test, not: false, ...(format !== undefined && { as: format }) }
}

/** The values by which an upsert finds its document. @throws Problem if they are not declared unique, or absent */
function uniqueKeyOf({ name, declared }: Collection, on: readonly string[], data: object): [string, Json][] {
  const isKey = ({ unique, state, fields }: Index) =>
    unique && state === 'ready' && fields.length === on.length && fields.every((field) => on.includes(field))
  if (declared?.indexes.some(isKey) !== true) {
    const detail = `${on.join(', ').slice(0, 200)} is not declared unique in ${name}.`
    throw new Problem('upsert_not_unique', { detail })
  }
  return on.map((field) => {
    const value = Object.hasOwn(data, field) ? (data as Record<string, Json>)[field] : undefined
    if (value !== undefined && value !== null) return [field, value]
    throw new Problem('validation_failed', { detail: `An upsert needs a value in ${field}.` })
  })
}

/** After a version mismatch, reports the version of now rather than the one that was read. */
async function problemNow(
  scope: WorkspaceScope,
  { store, collection }: WriteTask,
  planned: ValidatedChange | undefined,
  rejected: Outcome,
): Promise<unknown> {
  if (!('current' in rejected) || isTooLarge(rejected)) return problemOf(rejected)
  const [now] = await store.read(scope, [{ collection, id: planned?.change.id ?? '' }])
  return now === undefined ? problemOf({ missing: true }) : versionMismatch(now.version)
}
