/** Turns document commands into validated changes for a store: applies defaults, merges patches, enforces the schema. */

import { mergePatch } from '../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { checkFields, type Fields, isSame, updatedFields } from './document.ts'
import {
  canValidatePartially,
  enforceInThread,
  enforceSchema,
  type ValidationOutcome,
} from './enforce-schema.ts'
import type { CollectionLocation } from './resolve-store.ts'
import type { Right } from './rules/access.ts'
import { requireAdmitted, updateOf } from './rules/permissions.ts'
import { sortKey } from './schemas/canonical-text.ts'
import { withDefaults } from './schemas/columns.ts'
import { evaluateChange, isPending, type Violation } from './schemas/evaluate-schema.ts'
import {
  type Change,
  type Collection,
  type Content,
  type Create,
  createdBy,
  documentNotFound,
  type Stored,
  versionMismatch,
} from './store.ts'

interface OnOne {
  readonly id: string
  /** Versions that the caller accepts; by default any. */
  readonly ifVersions?: readonly number[] | undefined
}

type Update = { readonly op: 'update'; readonly data: Fields; readonly unset: readonly string[] } & OnOne

export type DocumentCommand =
  | { readonly op: 'create'; readonly data: Fields }
  /** Updates the document with these values in the unique fields `on`, or creates one. */
  | { readonly op: 'upsert'; readonly on: readonly string[]; readonly data: Fields }
  | Update
  /** RFC 7396. */
  | ({ readonly op: 'merge'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'replace'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'increment'; readonly field: string; readonly by: number } & OnOne)
  | ({ readonly op: 'delete' } & OnOne)

/** The rights that a command needs. All but a create also need to read, since the reply shows the document. */
export const RIGHTS: Readonly<Record<DocumentCommand['op'], readonly Right[]>> = {
  create: ['create'],
  upsert: ['read', 'create', 'update'],
  update: ['read', 'update'],
  merge: ['read', 'update'],
  replace: ['read', 'update'],
  increment: ['read', 'update'],
  delete: ['read', 'delete'],
}

/** A document as it is, or as earlier changes of the same transaction leave it. */
type Current = Omit<Stored, 'warnings'>

interface Planned {
  readonly change: Change
  readonly warnings: ValidationOutcome
}

/** The fast path: true if the change can be planned without reading the document. */
export function isBlindWrite(collection: Collection, command: DocumentCommand): boolean {
  if (RIGHTS[command.op].some((right) => collection.permissions[right] !== true)) return false
  if (command.op === 'update')
    return (
      canValidatePartially(collection) && (command.unset.length === 0 || collection.declared === undefined)
    )
  return command.op === 'create' || command.op === 'replace' || command.op === 'delete'
}

/** Plans a command without its document. @param newId the id of a document that is created */
export function planBlind(collection: Collection, command: DocumentCommand, newId: string): Planned {
  if (command.op === 'create') return creation(collection, command.data, newId)
  if (command.op !== 'update' && command.op !== 'replace' && command.op !== 'delete')
    throw new TypeError(`${command.op} is not planned without its document`)
  const at = { id: command.id, ...(command.ifVersions !== undefined && { ifVersions: command.ifVersions }) }
  if (command.op === 'delete') return { change: { verb: 'delete', ...at }, warnings: [] }
  if (command.op === 'replace') return replacement(collection, at, applyDefaults(collection, command.data))
  const content = checkFields(command.data)
  const warnings = enforceSchema(collection, content.fields, evaluateChange)
  return { change: { verb: 'update', ...at, content, unset: command.unset }, warnings }
}

/**
 * Plans a command on the current document. Validates the resulting document, which is written only if the version is
 * unchanged.
 * @throws Problem if there is no document, it has another version, or the result is not valid
 */
function planOnCurrent(
  collection: Collection,
  command: DocumentCommand,
  current: Current | undefined,
  newId: string,
): Planned {
  if (command.op === 'create') return creation(collection, command.data, newId)
  if (current === undefined) {
    if (command.op !== 'upsert') throw documentNotFound()
    return creation(collection, command.data, newId)
  }
  const { id, version } = current
  if ('ifVersions' in command && command.ifVersions !== undefined && !command.ifVersions.includes(version))
    throw versionMismatch(version)
  const at = { id, ifVersions: [version] }
  switch (command.op) {
    case 'delete':
      return { change: { verb: 'delete', ...at }, warnings: [] }
    case 'replace':
      return replacedOn(collection, at, current, applyDefaults(collection, command.data))
    case 'merge':
      return merged(collection, at, current, command.data)
    case 'update':
      return partialUpdate(collection, at, current, command)
    case 'upsert':
      return partialUpdate(collection, at, current, { data: command.data })
    case 'increment': {
      const data = { [command.field]: incremented(current.fields, command.field, command.by) }
      return partialUpdate(collection, at, current, { data })
    }
  }
}

function merged(collection: Collection, at: At, current: Current, patch: Fields): Planned {
  // The patch has the same bounds as its result.
  const fields = mergePatch(current.fields, checkFields(patch).fields) as Fields
  return replacedOn(collection, at, current, fields)
}

function replacedOn(collection: Collection, at: At, current: Current, fields: Fields): Planned {
  const { content, warnings } = validated(collection, fields)
  const change: Change = isSame(content.fields, current.fields)
    ? { verb: 'update', ...at, ...NOTHING }
    : { verb: 'replace', ...at, content }
  return { change, warnings }
}

function creation(collection: Collection, data: Fields, id: string): Planned {
  const { content, warnings } = validated(collection, applyDefaults(collection, data))
  return { change: { verb: 'create', id, content }, warnings }
}

type At = { readonly id: string; readonly ifVersions?: readonly number[] }

function replacement(collection: Collection, at: At, fields: Fields): Planned {
  const { content, warnings } = validated(collection, fields)
  return { change: { verb: 'replace', ...at, content }, warnings }
}

/** The same document makes no version and no event: a trigger that writes back would start itself again. */
const NOTHING = { content: { fields: {}, text: '{}' }, unset: [] }

function partialUpdate(
  collection: Collection,
  at: At,
  current: Current,
  { data = {}, unset = [] }: Partial<Pick<Update, 'data' | 'unset'>>,
): Planned {
  const content = checkFields(data)
  const fields = updatedFields(current.fields, content.fields, unset)
  const { warnings } = validated(collection, fields)
  if (isSame(fields, current.fields)) return { change: { verb: 'update', ...at, ...NOTHING }, warnings }
  return { change: { verb: 'update', ...at, content, unset }, warnings }
}

function validated(
  collection: Collection,
  fields: Fields,
): { content: Content; warnings: ValidationOutcome } {
  const content = checkFields(fields)
  return { content, warnings: enforceSchema(collection, content.fields) }
}

/** Adds defaults in any mode, since a default is no constraint. */
function applyDefaults({ declared }: Collection, fields: Fields): Fields {
  return declared === undefined ? fields : withDefaults(declared.defaults, fields)
}

function incremented(fields: Fields, field: string, by: number): number {
  const now = Object.hasOwn(fields, field) ? fields[field] : 0
  if (typeof now === 'number') return exactSum(now, by)
  throw new Problem('state_conflict', { detail: `The field ${field.slice(0, 100)} is not a number.` })
}

/** @throws Problem `number_unsafe` if integers have a sum that would lose digits: a counter would stand still */
function exactSum(now: number, by: number): number {
  const sum = now + by
  const isLost = Number.isSafeInteger(now) && Number.isSafeInteger(by) && !Number.isSafeInteger(sum)
  if (!isLost && Number.isFinite(sum)) return sum
  throw new Problem('number_unsafe', { detail: `The sum of ${now} and ${by} is beyond 2^53.` })
}

export interface WriteTask extends CollectionLocation {
  readonly command: DocumentCommand
  /** The id of a document that is created. */
  readonly id: string
}

type Planner = (task: WriteTask, index: number) => Planned

/** A planned change whose document is validated. */
export interface ValidatedChange extends Planned {
  readonly warnings: readonly Violation[]
}

/** Plans in order and yields to other requests in between. @throws Problem of the first that cannot be planned */
export async function planAll(
  scope: WorkspaceScope,
  tasks: readonly WriteTask[],
  plan: Planner,
  budget: CpuBudget,
): Promise<ValidatedChange[]> {
  const changes: ValidatedChange[] = []
  try {
    for (const [index, task] of tasks.entries()) {
      const planned = budget.run(() => plan(task, index))
      changes.push(await validatePlanned(scope, planned, budget))
      await budget.yield()
    }
  } catch (error) {
    throw withOpIndex(error, changes.length, tasks)
  }
  return changes
}

/** Validates the document of a planned change, in a worker thread if that takes many steps. @throws Problem as {@link enforceInThread} does */
export async function validatePlanned(
  scope: WorkspaceScope,
  planned: Planned,
  budget: CpuBudget,
): Promise<ValidatedChange> {
  const { warnings } = planned
  return {
    ...planned,
    warnings: isPending(warnings) ? await enforceInThread(scope, warnings, budget) : warnings,
  }
}

export const planIndependent: Planner = ({ collection, command, id }) => planBlind(collection, command, id)

/** Plans each command on the state that the ones before it leave, and applies the caller's rules. */
export function planSequential(scope: WorkspaceScope, currents: readonly (Current | undefined)[]): Planner {
  const states = new Map<string, PlannedState>()
  return (task, index) => {
    const { collection } = task
    const current = latestState(states, task, currents[index])
    const planned = planOnCurrent(collection, task.command, current, task.id)
    const { change } = planned
    const next = stateAfter(scope, change, current)
    requirePermitted(scope, collection, { change, current, next })
    states.set(stateKey(collection, change.id), { collection, current: next })
    return planned
  }
}

interface Transition {
  readonly change: Change
  readonly current: Current | undefined
  readonly next: Current | undefined
}

/**
 * Applies the rules to a change: the create rule to the new document, the update and delete rules to the present one, and the
 * update rule to the result as well. The result of an update must stay readable: PostgreSQL refuses to return a row that its
 * read policy hides.
 * @throws Problem `forbidden`
 */
function requirePermitted(
  scope: WorkspaceScope,
  collection: Collection,
  { change, current, next }: Transition,
): void {
  if (change.verb === 'create') {
    requireCreatable(scope, collection, change)
    return
  }
  const right = change.verb === 'delete' ? 'delete' : 'update'
  if (current !== undefined) requireAdmitted(scope, collection, right, current)
  if (next === undefined) return
  const permissions =
    current === undefined ? collection.permissions : updateOf(scope.actor, collection, current)
  requireAdmitted(scope, { ...collection, permissions }, 'update', next)
  requireAdmitted(scope, collection, 'read', next)
}

/** @throws Problem `forbidden` unless the caller's rule admits the new document */
export function requireCreatable(scope: WorkspaceScope, collection: Collection, change: Create): void {
  requireAdmitted(scope, collection, 'create', createdBy(scope.actor, change))
}

/** A document as an earlier task leaves it; undefined if that deletes it. */
interface PlannedState {
  readonly collection: Collection
  readonly current: Current | undefined
}

const stateKey = (collection: Collection, id: string) => `${collection.name}/${id}`

function latestState(
  states: ReadonlyMap<string, PlannedState>,
  { command, collection }: WriteTask,
  read: Current | undefined,
): Current | undefined {
  if (command.op === 'create') return undefined
  if (command.op === 'upsert' && read === undefined) return plannedInsert(states, collection, command)
  const id = 'id' in command ? command.id : (read?.id ?? '')
  const planned = states.get(stateKey(collection, id))
  return planned === undefined ? read : planned.current
}

/** The document that an earlier task of the same transaction creates with the key of an upsert. */
function plannedInsert(
  states: ReadonlyMap<string, PlannedState>,
  { name, declared }: Collection,
  { on, data }: Extract<DocumentCommand, { op: 'upsert' }>,
): Current | undefined {
  const key = (fields: Fields | undefined, field: string) =>
    sortKey(declared?.formats.get(field), fields?.[field])
  const hasKey = ({ collection, current }: PlannedState) =>
    collection.name === name && on.every((field) => key(current?.fields, field) === key(data, field))
  return [...states.values()].find(hasKey)?.current
}

function stateAfter(
  { actor }: WorkspaceScope,
  change: Change,
  current: Current | undefined,
): Current | undefined {
  if (change.verb === 'delete') return undefined
  if (change.verb === 'create' || current === undefined)
    return createdBy(actor, { verb: 'create', id: change.id, content: change.content })
  const { content } = change
  const version = current.version + 1
  if (change.verb === 'replace') return { ...current, fields: content.fields, version }
  const isUnchanged = Object.keys(content.fields).length + change.unset.length === 0
  if (isUnchanged) return current
  return { ...current, fields: updatedFields(current.fields, content.fields, change.unset), version }
}

/** Adds the index of the failed command if there are several. */
export function withOpIndex(error: unknown, index: number, tasks: readonly WriteTask[]): unknown {
  if (!(error instanceof Problem) || tasks.length === 1) return error
  return error.with({ op_index: index })
}
