/** The operations of a batch: their members, which are checked together, and the changes that they ask for. */

import Type, { type Static } from 'typebox'
import { Ref } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { isUuid } from '../../core/ids.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import type { CpuBudget } from '../../infra/cpu-budget.ts'
import {
  hasReference,
  OperationReference,
  referenceIn,
  referencesIn,
  replaceWithin,
} from './batch-references.ts'
import type { WantedChange } from './check-changes.ts'
import { CollectionName, Fields } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { type FieldChange, OPERATOR_MEMBERS, readOperators, withoutReading } from './operators.ts'

const FieldName = Type.String({
  minLength: 1,
  maxLength: COLLECTION_LIMITS.fieldNameBytesMax,
  pattern: '^[^_$]',
})

const MEMBERS = {
  ref: Type.Optional(
    Type.String({
      maxLength: 100,
      description: 'Label of your own for the change, returned with its result.',
    }),
  ),
  id: Type.Optional(Type.Union([Ref('document'), OperationReference])),
  data: Type.Optional(Fields),
  ...OPERATOR_MEMBERS,
  if_version: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Version that the document must have.' }),
  ),
  on: Type.Optional(
    Type.Array(FieldName, {
      minItems: 1,
      maxItems: COLLECTION_LIMITS.orderKeysMax,
      description: 'Fields that are declared unique, by which `upsert` finds the document.',
    }),
  ),
  field: Type.Optional(
    Type.String({ minLength: 1, description: 'Path of the number that `increment` adds to.' }),
  ),
  by: Type.Optional(
    Type.Union([Type.Number(), Type.String()], {
      description: 'Number to add, or its text for a field of the format `decimal` or `int64`. Default: 1.',
    }),
  ),
}

const NAMES = ['create', 'update', 'patch', 'replace', 'upsert', 'increment', 'delete'] as const
type Name = (typeof NAMES)[number]
const Name = Type.Enum([...NAMES], {
  description:
    'Change to make: `create {data, id?}`, `update {id, data?, …}` with operators such as `set`, `inc`, `push`, `patch {id, data}`, ' +
    '`replace {id, data}`, `upsert {on, data}`, `increment {id, field, by?}`, `delete {id}`. ' +
    'Every change of a document by its `id` may have `if_version`. `{"$ref": 0}` stands for the id of the document of the first operation.',
})
export const Op = component(
  'BatchOperation',
  Type.Object({ op: Name, ...MEMBERS }, { additionalProperties: false }),
  { op: 'increment', id: EXAMPLE_ID.booking, field: 'players', by: 1 },
)
export const OpAnywhere = component(
  'BatchOperationAnywhere',
  Type.Object({ collection: CollectionName, op: Name, ...MEMBERS }, { additionalProperties: false }),
  { collection: 'bookings', op: 'create', data: { court_id: EXAMPLE_ID.court } },
)
type Op = Static<typeof Op>
export type OpAnywhere = Op & { readonly collection: string }

/** An operation whose members are checked. Its references are not yet replaced. */
export interface BatchOperation {
  readonly op: OpAnywhere
  /** Those of `update` and `increment`; none if it sets whole fields alone. */
  readonly operators: readonly FieldChange[] | undefined
  /** True if it refers to documents of earlier operations. */
  readonly refers: boolean
  /** True if a later operation refers to its document. */
  readonly isReferred: boolean
}

const OPERATORS = Object.keys(OPERATOR_MEMBERS) as (keyof typeof OPERATOR_MEMBERS)[]

/** The required and the optional members of each operation. */
const MEMBERS_OF: Readonly<Record<Name, readonly [readonly (keyof Op)[], readonly (keyof Op)[]]>> = {
  create: [['data'], ['id']],
  update: [['id'], ['data', 'if_version', ...OPERATORS]],
  patch: [['id', 'data'], ['if_version']],
  replace: [['id', 'data'], ['if_version']],
  upsert: [['on', 'data'], []],
  increment: [
    ['id', 'field'],
    ['by', 'if_version'],
  ],
  delete: [['id'], ['if_version']],
}

/**
 * Reads the operations of a batch, and yields to other requests in between.
 * @throws Problem `validation_failed` with every member that is missing, not valid, or has no meaning for its operation
 */
export async function readBatch(ops: readonly OpAnywhere[], budget: CpuBudget): Promise<BatchOperation[]> {
  const errors: InputError[] = []
  const referred = new Set<number>()
  const read: Omit<BatchOperation, 'isReferred'>[] = []
  const readOne = (op: OpAnywhere, index: number) => {
    errors.push(...memberErrors(op, index))
    const references = referencesOf(op, index)
    for (const { pointer, index: to } of references) {
      const fault = referenceFault(ops, index, { pointer, to })
      if (fault === undefined) referred.add(to)
      else errors.push(errorAt(pointer, fault))
    }
    return { op, operators: operatorsOf(op, index, errors), refers: references.length > 0 }
  }
  for (const [index, op] of ops.entries()) {
    read.push(budget.run(() => readOne(op, index)))
    await budget.yield()
  }
  if (errors.length > 0) throw membersInvalid(errors.slice(0, CORE_LIMITS.diagnosticsReturnedMax))
  return read.map((one, index) => ({ ...one, isReferred: referred.has(index) }))
}

function membersInvalid(errors: readonly InputError[]): Problem {
  const detail = errors.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  return new Problem('validation_failed', { detail, errors })
}

const errorAt = (pointer: string, detail: string): InputError => ({
  in: 'body',
  name: pointer.slice(1).replaceAll('/', '.'),
  pointer,
  detail,
})

function memberErrors(op: OpAnywhere, index: number): InputError[] {
  const [required, optional] = MEMBERS_OF[op.op]
  const known: readonly string[] = ['op', 'ref', 'collection', ...required, ...optional]
  const absent = required.filter((name) => op[name] === undefined)
  const unused = Object.keys(op).filter((name) => !known.includes(name))
  const changesNothing =
    op.op === 'update' && ['data', ...OPERATORS].every((name) => !Object.hasOwn(op, name))
  const isNoId = op.op === 'create' && typeof op.id === 'string' && !isUuid(op.id.toLowerCase())
  return [
    ...absent.map((name) => errorAt(`/ops/${index}/${name}`, `is required by ${op.op}`)),
    ...(changesNothing ? [errorAt(`/ops/${index}/data`, 'or an operator is required by update')] : []),
    ...unused.map((name) => errorAt(`/ops/${index}/${name}`, `means nothing to ${op.op}`)),
    ...(isNoId ? [errorAt(`/ops/${index}/id`, 'is not a UUID')] : []),
  ]
}

/** @param errors get those of the operators */
function operatorsOf(
  op: OpAnywhere,
  index: number,
  errors: InputError[],
): readonly FieldChange[] | undefined {
  const { field, by = 1 } = op
  const isIncrement = op.op === 'increment'
  const isPlain = OPERATORS.every((name) => op[name] === undefined)
  if (isIncrement ? field === undefined : op.op !== 'update' || isPlain) return undefined
  try {
    return isIncrement ? readOperators({ inc: { [field ?? '']: by } }) : readOperators(op, `/ops/${index}`)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const at = (pointer: string) => (isIncrement ? `/ops/${index}/field` : pointer)
    errors.push(...error.errors.map(({ pointer, detail }) => errorAt(at(pointer), detail)))
    return undefined
  }
}

/** Members whose values may contain references. */
const REFERRING = ['id', 'data', 'set', 'push', 'pull'] as const

const referencesOf = (op: OpAnywhere, index: number) =>
  REFERRING.flatMap((name) => (hasReference(op[name]) ? referencesIn(op[name], `/ops/${index}/${name}`) : []))

function referenceFault(
  ops: readonly OpAnywhere[],
  index: number,
  { pointer, to }: { readonly pointer: string; readonly to: number },
): string | undefined {
  if (!Number.isInteger(to) || to < 0 || to >= index)
    return `refers to the operation ${to}: $ref is the index of an operation before this one`
  const [own, other] = [ops[index]?.collection, ops[to]?.collection]
  // A new document may have the id of one in another collection.
  if (pointer !== `/ops/${index}/id` || own === other || ops[index]?.op === 'create') return undefined
  return `refers to a document of ${other}, and the operation changes one of ${own}`
}

/** The change that an operation asks for. @param newId of a document that it creates @param idOf the id of the document of an operation before it */
export function toWanted(
  { op: given, operators, refers, isReferred }: BatchOperation,
  newId: string,
  idOf: (index: number) => string,
): WantedChange {
  const resolved = <T>(value: T): T => {
    const found = (one: unknown) => {
      const index = referenceIn(one)
      return index === undefined ? undefined : idOf(index)
    }
    return (refers ? replaceWithin(value, found) : value) as T
  }
  const { collection, op, id: named, if_version, on = [] } = given
  const id = resolved(named)
  const data = resolved(given.data ?? {})
  const chosen = typeof id === 'string' ? id : undefined
  if (op === 'create')
    return { op, collection, data, ...(chosen === undefined ? { id: newId } : ownId(chosen)) }
  if (op === 'upsert') return { op, collection, id: newId, on, data, isReferred }
  const existing = {
    collection,
    id: isUuid(chosen ?? '') ? (chosen ?? '') : NO_DOCUMENT,
    ifVersions: if_version === undefined ? undefined : [if_version],
  }
  switch (op) {
    case 'update':
    case 'increment':
      return operators === undefined
        ? { op: 'update', ...existing, data, unset: [] }
        : updateBy(existing, resolved(operators))
    case 'patch':
      return { op: 'merge', ...existing, data }
    case 'replace':
      return { op, ...existing, data }
    case 'delete':
      return { op, ...existing }
  }
}

type OnOne = Pick<Extract<WantedChange, { op: 'delete' }>, 'collection' | 'id' | 'ifVersions'>

/** A change by operators: as one that sets and removes whole fields if it is no more, since that need not read the document. */
export function updateBy(on: OnOne, operators: readonly FieldChange[]): WantedChange {
  const plain = withoutReading(operators, new Date().toISOString())
  return plain === undefined ? { op: 'apply', ...on, operators } : { op: 'update', ...on, ...plain }
}

/** A document with an id that the caller has chosen. @throws Problem `validation_failed` */
export function ownId(id: string): { readonly id: string; readonly mustBeNew: true } {
  // PostgreSQL returns ids in lower case (RFC 9562 §4).
  if (isUuid(id.toLowerCase())) return { id: id.toLowerCase(), mustBeNew: true }
  const detail = 'The id of a new document is a UUID.'
  throw new Problem('validation_failed', {
    detail,
    hint: 'Make a UUID, best of version 7, or let the server assign the id.',
  })
}

/** The id of no document, for texts that are not UUIDs. */
const NO_DOCUMENT = '00000000-0000-0000-0000-000000000000'
