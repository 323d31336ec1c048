/**
 * Checks the changes that callers want: applies defaults, merges patches, enforces schema and rules. A checked change says what
 * a store has to do.
 */

import { mergePatch } from '../../../flows-dsl/json.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import { replaceWithin } from './batch-references.ts'
import type { DeclaredCheck } from './constraints/constraint.ts'
import { checkFields, type Fields, isSame, updatedFields } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { applyOperators, type FieldChange } from './operators.ts'
import { evaluateWithin, valueBelow } from './query/evaluate.ts'
import type { Right } from './rules/access.ts'
import { requireAdmitted, updateOf } from './rules/permissions.ts'
import { sortKey } from './schemas/canonical-text.ts'
import { withDefaults } from './schemas/columns.ts'
import type { Declaration } from './schemas/declaration-cache.ts'
import { evaluateInThread } from './schemas/evaluate-in-thread.ts'
import {
  evaluateChange,
  evaluateDocument,
  isPending,
  type Validation,
  type Violation,
} from './schemas/evaluate-schema.ts'
import {
  brokenChecks,
  type CheckedChange,
  type Collection,
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

/**
 * The first form of a write: the change that a caller wants in the collection of that name. A document that it creates gets the
 * `id`, from `scope.uuid()`: the same at every attempt, also of an activity.
 */
export type WantedChange = { readonly collection: string } & (
  | {
      readonly op: 'create'
      readonly id: string
      readonly data: Fields
      /** The caller has chosen the id: a document that has it is not taken for this one. */
      readonly mustBeNew?: boolean
    }
  /** Updates the document with these values in the unique fields `on`, or creates one. */
  | {
      readonly op: 'upsert'
      readonly id: string
      readonly on: readonly string[]
      readonly data: Fields
      /** Later changes name its document by `id`, also if it has another one. */
      readonly isReferred?: boolean
      /** The caller has chosen the id: if the key finds no document, none may have it. */
      readonly mustBeNew?: boolean
    }
  | Update
  /** RFC 7396. */
  | ({ readonly op: 'merge'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'replace'; readonly data: Fields } & OnOne)
  | ({ readonly op: 'apply'; readonly operators: readonly FieldChange[] } & OnOne)
  | ({ readonly op: 'delete' } & OnOne)
)

/** The rights that a change needs. All but a create also need to read, since the reply shows the document. */
export const RIGHTS: Readonly<Record<WantedChange['op'], readonly Right[]>> = {
  create: ['create'],
  upsert: ['read', 'create', 'update'],
  update: ['read', 'update'],
  merge: ['read', 'update'],
  replace: ['read', 'update'],
  apply: ['read', 'update'],
  delete: ['read', 'delete'],
}

/** A document as it is, or as earlier changes of the same transaction leave it. */
type Current = Omit<Stored, 'warnings'>

/** The warnings of a schema; or a validation that takes too many steps for this thread. */
interface Validated {
  readonly warnings: readonly Violation[]
  readonly pending?: Validation
}

/** A change that is checked but for a pending validation. */
type Draft = CheckedChange & Validated

/**
 * Checks changes in order, each on the state that the ones before it leave, and yields to other requests in between.
 * @param currents the current document of each change; undefined if all are checked without ({@link isBlindWrite})
 * @param find reads the document of an upsert whose key refers to an upsert before it
 * @param budget of a request with several changes
 * @throws Problem of the first change that is refused, with its index as `op_index` if there are several
 */
export async function checkAll(
  scope: WorkspaceScope,
  wanted: readonly WantedChange[],
  {
    at,
    currents,
    find,
    budget,
  }: {
    readonly at: (collection: string) => Collection
    readonly currents: readonly (Current | undefined)[] | undefined
    readonly find: (upsert: WantedChange) => Promise<Current | undefined>
    readonly budget: CpuBudget | undefined
  },
): Promise<CheckedChange[]> {
  const states: States = new Map()
  const checked: CheckedChange[] = []
  const ids = new Map<string, string>()
  const checkOne = (change: WantedChange, read: Current | undefined) =>
    currents === undefined
      ? checkBlind(at(change.collection), change)
      : checkNext(scope, states, { collection: at(change.collection), change, read })
  try {
    for (const [index, given] of wanted.entries()) {
      const change = ids.size === 0 ? given : withIds(given, ids)
      // The key of the upsert has only now become known.
      const isUnknown = change !== given && change.op === 'upsert'
      const read = isUnknown ? await find(change) : currents?.[index]
      const draft = budget === undefined ? checkOne(change, read) : budget.run(() => checkOne(change, read))
      if (given.op === 'upsert' && given.isReferred) ids.set(given.id, draft.id)
      checked.push(await validateDraft(scope, draft, budget))
      await budget?.yield()
    }
  } catch (error) {
    throw withOpIndex(error, checked.length, wanted)
  }
  return checked
}

/** A change whose references to earlier upserts name the documents that these have found. */
function withIds<Change extends WantedChange>(change: Change, ids: ReadonlyMap<string, string>): Change {
  return replaceWithin(change, (value) => (typeof value === 'string' ? ids.get(value) : undefined)) as Change
}

/** Adds the index of the refused change if there are several. */
export function withOpIndex(error: unknown, index: number, wanted: readonly WantedChange[]): unknown {
  if (!(error instanceof Problem) || wanted.length === 1) return error
  return error.with({ op_index: index })
}

/** Checks a new document. @throws Problem if it is not valid, or the caller may not create it */
export async function checkCreate(
  scope: WorkspaceScope,
  collection: Collection,
  { id, data, budget }: { readonly id: string; readonly data: Fields; readonly budget: CpuBudget },
): Promise<Create> {
  const draft = budget.run(() => creation(collection, { id, data }))
  const create = await validateDraft(scope, draft, budget)
  requireAdmitted(scope, collection, 'create', createdBy(scope.actor, create))
  return create
}

/** Checks the fields of a document of an archive, which has had its defaults. @throws Problem if they are not valid */
export async function checkRestored(
  scope: WorkspaceScope,
  collection: Collection,
  { id, data, budget }: { readonly id: string; readonly data: Fields; readonly budget: CpuBudget },
): Promise<Create> {
  const draft = budget.run(() => {
    const content = checkFields(data)
    return { verb: 'create' as const, collection, id, content, ...validate(collection, content.fields) }
  })
  return validateDraft(scope, draft, budget)
}

/** The fast path: true if the change can be checked without reading the document. */
export function isBlindWrite(collection: Collection, change: WantedChange): boolean {
  if (RIGHTS[change.op].some((right) => collection.permissions[right] !== true)) return false
  if (change.op === 'update')
    return (
      canValidatePartially(collection) && (change.unset.length === 0 || collection.declared === undefined)
    )
  return change.op === 'create' || change.op === 'replace' || change.op === 'delete'
}

/** True if the fields that are set can be validated without the others: checks, too, are compared by the tables of PostgreSQL. */
const canValidatePartially = ({ declared, store }: Collection): boolean =>
  declared === undefined ||
  ((declared.mode === 'off' || declared.schema.separable) &&
    (declared.checks.length === 0 || store.kind === 'postgresql'))

/** Checks a change without its document. */
function checkBlind(collection: Collection, change: WantedChange): Draft {
  if (change.op === 'create') return creation(collection, change)
  if (change.op !== 'update' && change.op !== 'replace' && change.op !== 'delete')
    throw new TypeError(`${change.op} is not checked without its document`)
  const { id, ifVersions } = change
  const on = { collection, id, ...(ifVersions !== undefined && { ifVersions }) }
  if (change.op === 'delete') return { verb: 'delete', ...on, warnings: [] }
  if (change.op === 'replace') return replacement(on, applyDefaults(collection, change.data))
  const content = checkFields(change.data)
  const validated = validate(collection, content.fields, evaluateChange)
  return { verb: 'update', ...on, content, unset: change.unset, ...validated }
}

/** Checks a change on the state that earlier ones leave, applies the caller's rules, and notes the state after it. */
function checkNext(
  scope: WorkspaceScope,
  states: States,
  {
    collection,
    change,
    read,
  }: {
    readonly collection: Collection
    readonly change: WantedChange
    readonly read: Current | undefined
  },
): Draft {
  const current = latestState(states, collection, { change, read })
  const draft = checkOnCurrent(collection, change, current)
  const next = stateAfter(scope, draft, current)
  requirePermitted(scope, draft, { current, next })
  states.set(stateKey(collection, draft.id), { collection, current: next })
  return draft
}

/**
 * Checks a change on the current document. Validates the resulting document, which is written only if the version is
 * unchanged.
 * @throws Problem if there is no document, it has another version, or the result is not valid
 */
function checkOnCurrent(collection: Collection, change: WantedChange, current: Current | undefined): Draft {
  if (change.op === 'create') return creation(collection, change)
  if (current === undefined) {
    if (change.op !== 'upsert') throw documentNotFound()
    return creation(collection, change)
  }
  const { id, version } = current
  if ('ifVersions' in change && change.ifVersions !== undefined && !change.ifVersions.includes(version))
    throw versionMismatch(version)
  const on = { collection, id, ifVersions: [version] }
  switch (change.op) {
    case 'delete':
      return { verb: 'delete', ...on, warnings: [] }
    case 'replace':
      return replacedOn(on, current, applyDefaults(collection, change.data))
    case 'merge':
      return merged(on, current, change.data)
    case 'update':
      return partialUpdate(on, current, change)
    case 'upsert':
      return partialUpdate(on, current, { data: change.data })
    case 'apply':
      return partialUpdate(on, current, applied(collection, current, change.operators))
  }
}

/** Applies operators to the current document. @returns the top-level fields that they change, and the names of those that they remove */
function applied(
  { declared }: Collection,
  { fields }: Current,
  operators: readonly FieldChange[],
): Pick<Update, 'data' | 'unset'> {
  const formats = declared?.formats ?? new Map()
  const after = applyOperators(fields, operators, { now: new Date().toISOString(), formats })
  return {
    data: Object.fromEntries(
      Object.entries(after).filter(([name, value]) => !Object.hasOwn(fields, name) || fields[name] !== value),
    ),
    unset: Object.keys(fields).filter((name) => !Object.hasOwn(after, name)),
  }
}

/** An existing document. */
type On = Pick<Extract<CheckedChange, { verb: 'update' }>, 'collection' | 'id' | 'ifVersions'>

function creation(
  collection: Collection,
  { id, data, mustBeNew }: { readonly id: string; readonly data: Fields; readonly mustBeNew?: boolean },
): Create & Validated {
  const content = checkFields(applyDefaults(collection, data))
  const validated = validateWhole(collection, content.fields)
  return { verb: 'create', collection, id, content, ...(mustBeNew && { mustBeNew }), ...validated }
}

function replacement(on: On, fields: Fields): Draft {
  const content = checkFields(fields)
  return { verb: 'replace', ...on, content, ...validateWhole(on.collection, content.fields) }
}

function merged(on: On, current: Current, patch: Fields): Draft {
  // The patch has the same bounds as its result.
  const fields = mergePatch(current.fields, checkFields(patch).fields) as Fields
  return replacedOn(on, current, fields)
}

function replacedOn(on: On, current: Current, fields: Fields): Draft {
  const replaced = replacement(on, fields)
  if (!isSame(fields, current.fields)) return replaced
  const { warnings, pending } = replaced
  return { verb: 'update', ...on, ...NOTHING, warnings, ...(pending !== undefined && { pending }) }
}

/** The same document makes no version and no event: a trigger that writes back would start itself again. */
const NOTHING = { content: { fields: {}, text: '{}' }, unset: [] }

function partialUpdate(
  on: On,
  current: Current,
  { data = {}, unset = [] }: Partial<Pick<Update, 'data' | 'unset'>>,
): Draft {
  const content = checkFields(data)
  const fields = updatedFields(current.fields, content.fields, unset)
  const validated = validateWhole(on.collection, checkFields(fields).fields)
  if (isSame(fields, current.fields)) return { verb: 'update', ...on, ...NOTHING, ...validated }
  return { verb: 'update', ...on, content, unset, ...validated }
}

/** Adds defaults in any mode, since a default is no constraint. */
function applyDefaults({ declared }: Collection, fields: Fields): Fields {
  return declared === undefined ? fields : withDefaults(declared.defaults, fields)
}

/**
 * Validates a whole document, or with `evaluateChange` the fields that a change sets ({@link canValidatePartially}).
 * @throws Problem `schema_violation` if the schema is enforced
 */
function validate({ declared }: Collection, fields: Fields, validation = evaluateDocument): Validated {
  if (declared === undefined || declared.mode === 'off') return { warnings: [] }
  const result = validation(declared.schema, fields)
  if (isPending(result)) return { warnings: [], pending: result }
  return { warnings: enforce(declared.mode, result) }
}

/** Validates a whole document, and compares it with the checks of its collection. @throws Problem `schema_violation` */
function validateWhole(collection: Collection, fields: Fields): Validated {
  const validated = validate(collection, fields)
  const broken = (collection.declared?.checks ?? []).filter((check) => isBroken(collection, check, fields))
  if (broken.length > 0) throw brokenChecks(broken)
  return validated
}

/**
 * PostgreSQL compares every check itself, so it decides what takes too long here; in MongoDB nothing else would.
 * @throws Problem `validation_too_costly`
 */
function isBroken({ store }: Collection, { name, broken }: DeclaredCheck, fields: Fields): boolean {
  const found = evaluateWithin(COLLECTION_LIMITS.ruleStepsMax, broken, (path) => valueBelow(fields, path))
  if (found !== undefined || store.kind === 'postgresql') return found ?? false
  const detail = `The document takes too many steps to compare with the check ${name}.`
  const hint = 'Shorten the document, or simplify the check.'
  throw new Problem('validation_too_costly', { detail, hint })
}

/** Completes a pending validation in a worker thread. @throws Problem as {@link validate} and {@link evaluateInThread} do */
async function validateDraft<D extends Draft>(
  scope: WorkspaceScope,
  draft: D,
  budget: CpuBudget | undefined,
): Promise<D> {
  const { pending } = draft
  if (pending === undefined) return draft
  const mode = draft.collection.declared?.mode ?? 'off'
  return { ...draft, warnings: enforce(mode, await evaluateInThread(scope, pending, budget)) }
}

function enforce(mode: Declaration['mode'], violations: readonly Violation[]): readonly Violation[] {
  if (mode !== 'enforce' || violations.length === 0) return violations
  const detail = violations
    .map(({ pointer, detail: text }) => `${pointer || 'the document'} ${text}`)
    .join('; ')
  throw new Problem('schema_violation', { detail, errors: violations })
}

/**
 * Applies the rules to a change: the create rule to the new document, the update and delete rules to the present one, and the
 * update rule to the result as well. The result of an update must stay readable: PostgreSQL refuses to return a row that its
 * read policy hides.
 * @throws Problem `forbidden`
 */
function requirePermitted(
  scope: WorkspaceScope,
  change: CheckedChange,
  { current, next }: { readonly current: Current | undefined; readonly next: Current | undefined },
): void {
  const { collection } = change
  if (change.verb === 'create') {
    requireAdmitted(scope, collection, 'create', createdBy(scope.actor, change))
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

/** Documents as earlier changes of the transaction leave them; `current` is undefined if they delete it. */
type States = Map<string, { readonly collection: Collection; readonly current: Current | undefined }>

const stateKey = (collection: Collection, id: string) => `${collection.name}/${id}`

function latestState(
  states: States,
  collection: Collection,
  { change, read }: { readonly change: WantedChange; readonly read: Current | undefined },
): Current | undefined {
  if (change.op === 'create') return undefined
  if (change.op === 'upsert') {
    const isUnchanged = read !== undefined && !states.has(stateKey(collection, read.id))
    return isUnchanged ? read : withKeyNow(states, collection, change)
  }
  const state = states.get(stateKey(collection, change.id))
  return state === undefined ? read : state.current
}

/** The document to which earlier changes of the same transaction give the key of an upsert. */
function withKeyNow(
  states: States,
  { name, declared }: Collection,
  { on, data }: Extract<WantedChange, { op: 'upsert' }>,
): Current | undefined {
  const key = (fields: Fields | undefined, field: string) =>
    sortKey(declared?.formats.get(field), fields?.[field])
  return [...states.values()].find(
    ({ collection, current }) =>
      collection.name === name && on.every((field) => key(current?.fields, field) === key(data, field)),
  )?.current
}

function stateAfter(
  { actor }: WorkspaceScope,
  change: CheckedChange,
  current: Current | undefined,
): Current | undefined {
  if (change.verb === 'delete') return undefined
  if (change.verb === 'create' || current === undefined) return createdBy(actor, change)
  const { content } = change
  const version = current.version + 1
  if (change.verb === 'replace') return { ...current, fields: content.fields, version }
  const isUnchanged = Object.keys(content.fields).length + change.unset.length === 0
  if (isUnchanged) return current
  return { ...current, fields: updatedFields(current.fields, content.fields, change.unset), version }
}
