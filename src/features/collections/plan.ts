/** Plans document commands: from what callers ask for to the changes that a store writes. */

import { mergePatch } from '../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { after, checkFields, type Fields } from './document.ts'
import type { CollectionLocation, Right } from './resolve-store.ts'
import { sortKey } from './schemas/canonical-text.ts'
import { withDefaults } from './schemas/columns.ts'
import { type Violation, validateChange } from './schemas/validate.ts'
import {
  type Change,
  type Collection,
  type Content,
  documentNotFound,
  type Stored,
  versionMismatch,
} from './store.ts'
import {
  canValidatePartially,
  checkDocument,
  checkInThread,
  isDeferred,
  type ValidationOutcome,
} from './validate-document.ts'

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

/** The rights that anon keys need. All but a create also need to read, since the reply shows the document. */
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
type Current = Pick<Stored, 'id' | 'fields' | 'version'>

interface Planned {
  readonly change: Change
  readonly warnings: ValidationOutcome
  /** True if the plan rests on a document that was read: it is planned again if that changed meanwhile. */
  readonly again: boolean
}

/** True if the change can be planned without reading the document. */
export function isBlindWrite(collection: Collection, command: DocumentCommand): boolean {
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
  if (command.op === 'delete') return { change: { verb: 'delete', ...at }, warnings: [], again: false }
  if (command.op === 'replace') {
    const { content, warnings } = checked(collection, defaulted(collection, command.data))
    return { change: { verb: 'replace', ...at, content }, warnings, again: false }
  }
  const content = checkFields(command.data)
  const warnings = checkDocument(collection, content.fields, validateChange)
  return { change: { verb: 'update', ...at, content, unset: command.unset }, warnings, again: false }
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
    return { ...creation(collection, command.data, newId), again: true }
  }
  const { id, version } = current
  if ('ifVersions' in command && command.ifVersions !== undefined && !command.ifVersions.includes(version))
    throw versionMismatch(version)
  const at = { id, ifVersions: [version] }
  switch (command.op) {
    case 'delete':
      return { change: { verb: 'delete', ...at }, warnings: [], again: true }
    case 'replace':
      return written(collection, at, defaulted(collection, command.data))
    case 'merge':
      if (Object.keys(command.data).length === 0) return setting(collection, at, current, NOTHING)
      // The patch has the same bounds as its result.
      return written(collection, at, mergePatch(current.fields, checkFields(command.data).fields))
    case 'update':
      return setting(collection, at, current, command)
    case 'upsert':
      return setting(collection, at, current, { data: command.data, unset: [] })
    case 'increment': {
      const data = { [command.field]: incremented(current.fields, command.field, command.by) }
      return setting(collection, at, current, { data, unset: [] })
    }
  }
}

function creation(collection: Collection, data: Fields, id: string): Planned {
  const { content, warnings } = checked(collection, defaulted(collection, data))
  return { change: { verb: 'create', id, content }, warnings, again: false }
}

const NOTHING = { data: {}, unset: [] } as const

type At = { readonly id: string; readonly ifVersions: readonly number[] }

function written(collection: Collection, at: At, fields: Fields): Planned {
  const { content, warnings } = checked(collection, fields)
  return { change: { verb: 'replace', ...at, content }, warnings, again: true }
}

function setting(
  collection: Collection,
  at: At,
  current: Current,
  { data, unset }: Pick<Update, 'data' | 'unset'>,
): Planned {
  const content = checkFields(data)
  const { warnings } = checked(collection, after(current.fields, content.fields, unset))
  return { change: { verb: 'update', ...at, content, unset }, warnings, again: true }
}

function checked(collection: Collection, fields: Fields): { content: Content; warnings: ValidationOutcome } {
  const content = checkFields(fields)
  return { content, warnings: checkDocument(collection, content.fields) }
}

/** Adds defaults in any mode, since a default is no constraint. */
function defaulted({ declared }: Collection, fields: Fields): Fields {
  return declared === undefined ? fields : withDefaults(declared.defaults, fields)
}

function incremented(fields: Fields, field: string, by: number): number {
  const now = Object.hasOwn(fields, field) ? fields[field] : 0
  if (typeof now === 'number') return now + by
  throw new Problem('state_conflict', { detail: `The field ${field.slice(0, 100)} is not a number.` })
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

/** Plans one after the other and yields to other requests in between. @throws Problem of the first that cannot be planned */
export async function planAll(
  scope: WorkspaceScope,
  tasks: readonly WriteTask[],
  plan: Planner,
  budget: CpuBudget,
): Promise<ValidatedChange[]> {
  const validated: ValidatedChange[] = []
  try {
    for (const [index, task] of tasks.entries()) {
      const planned = budget.run(() => plan(task, index))
      validated.push(isValidated(planned) ? planned : await validatePlanned(scope, planned, budget))
      await budget.yield()
    }
  } catch (error) {
    throw located(error, validated.length, tasks)
  }
  return validated
}

const isValidated = (planned: Planned): planned is ValidatedChange => !isDeferred(planned.warnings)

/** Validates the document of a planned change, in a worker thread if that takes many steps. @throws Problem as {@link checkInThread} does */
export async function validatePlanned(
  scope: WorkspaceScope,
  planned: Planned,
  budget: CpuBudget,
): Promise<ValidatedChange> {
  const { warnings } = planned
  return {
    ...planned,
    warnings: isDeferred(warnings) ? await checkInThread(scope, warnings, budget) : warnings,
  }
}

export const planIndependent: Planner = ({ collection, command, id }) => planBlind(collection, command, id)

/** Plans each command on the state that the ones before leave. */
export function planSequential(currents: readonly (Current | undefined)[]): Planner {
  const left = new Map<string, PlannedState>()
  return (task, index) => {
    const current = latestState(left, task, currents[index])
    const planned = planOnCurrent(task.collection, task.command, current, task.id)
    const { id } = planned.change
    left.set(keyIn(task.collection, id), { collection: task.collection, ...next(planned, current) })
    return planned
  }
}

/** A document as an earlier task leaves it; undefined if that deletes it. */
interface PlannedState {
  readonly collection: Collection
  readonly current: Current | undefined
}

const keyIn = (collection: Collection, id: string) => `${collection.name}/${id}`

function latestState(
  left: Map<string, PlannedState>,
  task: WriteTask,
  read: Current | undefined,
): Current | undefined {
  const { command, collection } = task
  if (command.op === 'create') return undefined
  if (command.op === 'upsert' && read === undefined) return plannedInsert(left, collection, command)
  const id = 'id' in command ? command.id : (read?.id ?? '')
  const known = left.get(keyIn(collection, id))
  return known === undefined ? read : known.current
}

function plannedInsert(
  left: Map<string, PlannedState>,
  collection: Collection,
  { on, data }: Extract<DocumentCommand, { op: 'upsert' }>,
): Current | undefined {
  const value = (fields: Fields | undefined, field: string) =>
    sortKey(collection.declared?.formats.get(field), fields?.[field])
  const made = [...left.values()].find(
    ({ collection: { name }, current }) =>
      name === collection.name && on.every((field) => value(current?.fields, field) === value(data, field)),
  )
  return made?.current
}

function next({ change }: Planned, current: Current | undefined): Pick<PlannedState, 'current'> {
  if (change.verb === 'delete') return { current: undefined }
  const { id, content } = change
  if (change.verb !== 'update')
    return { current: { id, fields: content.fields, version: (current?.version ?? 0) + 1 } }
  const untouched = Object.keys(content.fields).length + change.unset.length === 0
  const version = (current?.version ?? 0) + (untouched ? 0 : 1)
  return { current: { id, fields: after(current?.fields ?? {}, content.fields, change.unset), version } }
}

/** Adds the index of the failed command if there are several. */
export function located(error: unknown, index: number, tasks: readonly WriteTask[]): unknown {
  if (!(error instanceof Problem) || tasks.length === 1) return error
  return error.with({ op_index: index })
}
