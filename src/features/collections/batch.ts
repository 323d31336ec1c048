/** Operations that change several documents in one call: all or none, or each by itself. */

import Type, { type Static } from 'typebox'
import { Input, Ref, workspaceOperation } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { isUuid } from '../../core/ids.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { DATA_ROLES } from '../../core/policy.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import type { WantedChange } from './check-changes.ts'
import { CollectionName, Fields, namesInBoth } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { withCollection } from './resolve-store.ts'
import type { Store, Written } from './store.ts'
import { write, writeAll } from './write.ts'

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
  id: Type.Optional(Ref('document')),
  data: Type.Optional(Fields),
  unset: Type.Optional(Type.Array(FieldName, { maxItems: COLLECTION_LIMITS.fieldsSelectedMax })),
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
  field: Type.Optional(FieldName),
  by: Type.Optional(Type.Number()),
}

const NAMES = ['create', 'update', 'patch', 'replace', 'upsert', 'increment', 'delete'] as const
type Name = (typeof NAMES)[number]
const Name = Type.Enum([...NAMES], {
  description:
    'Change to make: `create {data}`, `update {id, data, unset?}`, `patch {id, data}`, `replace {id, data}`, `upsert {on, data}`, ' +
    '`increment {id, field, by?}`, `delete {id}`. Every change that has an `id` may have `if_version`.',
})
const Op = Type.Object({ op: Name, ...MEMBERS }, { additionalProperties: false })
const OpAnywhere = Type.Object(
  { collection: CollectionName, op: Name, ...MEMBERS },
  { additionalProperties: false },
)
type Op = Static<typeof Op>

const Atomic = Type.Optional(
  Type.Boolean({
    description:
      'True if either all changes are made or none; `false`: each change on its own. Default: `true`.',
  }),
)
const count = { minItems: 1, maxItems: COLLECTION_LIMITS.batchOperationsMax }

const Result = Type.Object({
  status: Type.Integer({ description: 'HTTP status that the change would have as a request of its own.' }),
  ref: Type.Optional(Type.String()),
  id: Type.Optional(Type.String()),
  version: Type.Optional(Type.Integer()),
  error: Type.Optional(
    Type.Object({
      code: Type.String(),
      detail: Type.Optional(Type.String()),
      errors: Type.Optional(Type.Array(Type.Unknown())),
    }),
  ),
})
const Results = Type.Object({
  committed: Type.Boolean({ description: 'True if all changes were made.' }),
  results: Type.Array(Result),
})

export const batchDocuments = workspaceOperation({
  name: 'collection.batch',
  summary: 'Write several documents of a collection in one request; by default, all or none',
  roles: DATA_ROLES,
  input: Input({ name: CollectionName, atomic: Atomic, ops: Type.Array(Op, count) }),
  output: Results,
  http: {
    method: 'POST',
    path: '/v1/collections/{name}/batch',
    body: '*',
    bodyBytesMax: COLLECTION_LIMITS.batchBytesMax,
  },
  run: (scope, { name, atomic, ops }) =>
    runAll(
      scope,
      ops.map((op) => ({ ...op, collection: name })),
      atomic,
    ),
})

export const batchAnywhere = workspaceOperation({
  name: 'batch.run',
  area: 'collections',
  summary: 'Write documents of several collections in one request; by default, all or none',
  roles: DATA_ROLES,
  input: Input({ atomic: Atomic, ops: Type.Array(OpAnywhere, count) }),
  output: Results,
  http: { method: 'POST', path: '/v1/batch', body: '*', bodyBytesMax: COLLECTION_LIMITS.batchBytesMax },
  run: (scope, { atomic, ops }) => runAll(scope, ops, atomic),
})

type OpAnywhere = Op & { readonly collection: string }

async function runAll(
  scope: WorkspaceScope,
  ops: readonly OpAnywhere[],
  atomic = true,
): Promise<Static<typeof Results>> {
  checkMembers(ops)
  if (!atomic) return runOneByOne(scope, ops)
  const wanted = ops.map((op) => toWanted(scope, op))
  const outputOf = (written: readonly Written[]) => ({
    committed: true,
    results: written.map((result, index) => resultOf(ops[index], result)),
  })
  const { completion } = scope
  const once = completion && {
    keep: (written: readonly Written[]) => completion.keep(outputOf(written)),
    effect: completion.marked(0),
  }
  const written = await writeAll(scope, wanted, { once }).catch((error: unknown) => {
    // A single change has no `op_index` yet.
    throw error instanceof Problem && ops.length === 1 ? error.with({ op_index: 0 }) : error
  })
  return outputOf(written)
}

/**
 * Executes them in order, since a later one may depend on an earlier one. Those that an earlier attempt of the request has
 * done are not repeated.
 */
async function runOneByOne(
  scope: WorkspaceScope,
  ops: readonly OpAnywhere[],
): Promise<Static<typeof Results>> {
  const results: Static<typeof Result>[] = []
  const budget = new CpuBudget()
  const { completion } = scope
  for (const [index, op] of ops.entries()) {
    // Also for an operation that is done, so that those after it have the same ids at every attempt.
    const wanted = toWanted(scope, op)
    const done = completion?.parts[index] as Static<typeof Result> | undefined
    if (done !== undefined) {
      results.push(done)
      continue
    }
    const once = completion && {
      keep: ([written]: readonly Written[]) => completion.keepPart(index, written && resultOf(op, written)),
      effect: completion.marked(index),
    }
    const result = await write(scope, wanted, { budget, once }).then(
      (written) => resultOf(op, written),
      (error) => errorResult(op, error),
    )
    results.push(result)
  }
  return { committed: results.every(({ error }) => error === undefined), results }
}

function resultOf(op: Op | undefined, { id, version, created }: Written): Static<typeof Result> {
  return { status: created ? 201 : 200, ...(op?.ref !== undefined && { ref: op.ref }), id, version }
}

function errorResult(op: Op, error: unknown): Static<typeof Result> {
  // A server error would hit the other operations, too.
  // A claim that another attempt has taken over is lost for the other operations, too.
  if (!(error instanceof Problem) || error.status >= 500 || error.code === 'idempotency_in_flight')
    throw error
  const { code, detail, errors, status } = error
  return {
    status,
    ...(op.ref !== undefined && { ref: op.ref }),
    ...(op.id !== undefined && { id: op.id }),
    error: {
      code,
      ...(detail !== undefined && { detail }),
      // Bounded, since a batch may have five hundred operations.
      ...(errors.length > 0 && { errors: errors.slice(0, COLLECTION_LIMITS.batchDiagnosticsReturnedMax) }),
    },
  }
}

/** The required and the optional members of each operation. */
const MEMBERS_OF: Readonly<Record<Name, readonly [readonly (keyof Op)[], readonly (keyof Op)[]]>> = {
  create: [['data'], []],
  update: [
    ['id', 'data'],
    ['unset', 'if_version'],
  ],
  patch: [['id', 'data'], ['if_version']],
  replace: [['id', 'data'], ['if_version']],
  upsert: [['on', 'data'], []],
  increment: [
    ['id', 'field'],
    ['by', 'if_version'],
  ],
  delete: [['id'], ['if_version']],
}

/** @throws Problem `validation_failed` with every member that is missing or has no meaning for its operation */
function checkMembers(ops: readonly OpAnywhere[]): void {
  const errors = ops.flatMap((op, index) => {
    const paths = [...(op.field === undefined ? [] : [op.field]), ...(op.unset ?? [])].filter(isPath)
    const [required, optional] = MEMBERS_OF[op.op]
    const known: readonly string[] = ['op', 'ref', 'collection', ...required, ...optional]
    const absent = required.filter((name) => op[name] === undefined)
    const unused = Object.keys(op).filter((name) => !known.includes(name))
    return [
      ...absent.map((name) => memberError(index, name, `is required by ${op.op}`)),
      ...unused.map((name) => memberError(index, name, `means nothing to ${op.op}`)),
      ...namesInBoth(op.data, op.unset).map((name) =>
        memberError(index, 'unset', `names ${name.slice(0, 50)}, which data sets`),
      ),
      ...paths.map((path) =>
        memberError(
          index,
          op.field === path ? 'field' : 'unset',
          `names ${path.slice(0, 50)}, which ${NO_PATH}`,
        ),
      ),
    ]
  })
  if (errors.length === 0) return
  const first = errors.slice(0, CORE_LIMITS.diagnosticsReturnedMax)
  const detail = first.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('validation_failed', { detail, errors: first })
}

/** In queries, a dot or an arrow enters an object. */
const isPath = (name: string) => /\.|->/.test(name)
const NO_PATH = 'is a path; it takes a field of the document itself (patch changes members of objects)'

const memberError = (index: number, name: string, detail: string): InputError => ({
  in: 'body',
  name: `ops.${index}.${name}`,
  pointer: `/ops/${index}/${name}`,
  detail,
})

/** The required members are present: {@link checkMembers}. */
function toWanted(
  scope: WorkspaceScope,
  { collection, op, id = '', data = {}, unset = [], if_version, on = [], field = '', by = 1 }: OpAnywhere,
): WantedChange {
  if (op === 'create') return { op, collection, id: scope.uuid(), data }
  if (op === 'upsert') return { op, collection, id: scope.uuid(), on, data }
  const existing = {
    collection,
    id: isUuid(id) ? id : NO_DOCUMENT,
    ifVersions: if_version === undefined ? undefined : [if_version],
  }
  switch (op) {
    case 'update':
      return { op, ...existing, data, unset }
    case 'patch':
      return { op: 'merge', ...existing, data }
    case 'replace':
      return { op, ...existing, data }
    case 'increment':
      return { op, ...existing, field, by }
    case 'delete':
      return { op, ...existing }
  }
}

/** The id of no document, for texts that are not UUIDs. */
const NO_DOCUMENT = '00000000-0000-0000-0000-000000000000'

/** Gives some documents of an owner to another, as {@link Store.changeOwner}. @param service scope with the rights of a service key */
export const changeOwner = (
  service: WorkspaceScope,
  name: string,
  change: Parameters<Store['changeOwner']>[2],
): Promise<number> =>
  withCollection(service, name, ['update'], (collection, inside) =>
    collection.store.changeOwner(inside, collection, change),
  )
