/** References of a declaration: fields that hold the id of a document of another collection, or of the same one. */

import Type, { type Static } from 'typebox'
import type { AdminScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { Problem } from '../../../core/problem.ts'
import { CpuBudget } from '../../../infra/cpu-budget.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Format } from '../schemas/canonical-text.ts'
import { CollectionName, formatsOf, type TableColumn } from '../schemas/columns.ts'
import { findViolation } from '../schemas/evaluate-in-thread.ts'
import type { SchemaObject } from '../schemas/schema-language.ts'

/** The pattern of names in `expand`. */
export const REFERENCE_NAME = '^[A-Za-z][A-Za-z0-9_]{0,62}$'
const Field = Type.String({ description: 'Declared field of type string with the format `uuid`.' })
const Inverse = Type.Optional(
  Type.String({
    pattern: REFERENCE_NAME,
    description: 'Name, in `expand` of the other collection, of the documents that refer to one of it.',
  }),
)
const OnDelete = Type.Union([Type.Literal('restrict'), Type.Literal('cascade'), Type.Literal('set_null')], {
  description:
    'Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`.',
})
const as = 'Name of the other document in `expand`.'

export const Reference = component(
  'CollectionReference',
  Type.Object({
    field: Field,
    collection: CollectionName,
    as: Type.String({ pattern: REFERENCE_NAME, description: as }),
    inverse: Inverse,
    on_delete: OnDelete,
  }),
  { field: 'court_id', collection: 'courts', as: 'court', inverse: 'bookings', on_delete: 'restrict' },
)
export type Reference = Static<typeof Reference>

/** The references that a declaration may request. */
export const RequestedReferences = Type.Array(
  Type.Object(
    {
      field: Field,
      collection: CollectionName,
      as: Type.Optional(
        Type.String({ pattern: REFERENCE_NAME, description: `${as} Default: the field without \`_id\`.` }),
      ),
      inverse: Inverse,
      on_delete: Type.Optional(OnDelete),
    },
    { additionalProperties: false },
  ),
  {
    maxItems: COLLECTION_LIMITS.referencesMax,
    description:
      'Fields that hold the id of a document of a collection that is declared in the same workspace: `[{"field": "customer_id", "collection": "customers", "inverse": "orders"}]`.',
  },
)
type RequestedReferences = Static<typeof RequestedReferences>

/** @throws Problem `validation_failed` for one that needs a name */
export function referencesOf(requested: RequestedReferences): Reference[] {
  return requested.map((one, index) => {
    const { field, as: name = /^(.+)_id$/.exec(field)?.[1], on_delete = 'restrict' } = one
    if (name === undefined || !new RegExp(REFERENCE_NAME).test(name))
      throw problemAt(index, 'as', `${field} does not end with _id, so its reference needs a name`)
    return { ...one, as: name, on_delete }
  })
}

const problemAt = (index: number, member: string, detail: string): Problem =>
  bodyProblem(`/references/${index}/${member}`, detail, `references: ${detail}`)

/** The part of a declaration that its references depend on. */
interface Referring {
  readonly workspaceId: string
  readonly collection: string
  readonly store: 'relational' | 'document'
  readonly mode: string
  readonly schema: SchemaObject
  /** True if documents of the store `document` are in MongoDB. */
  readonly hasDocumentStore: boolean
}

/** Another declaration of the workspace. */
interface Other {
  readonly collection: string
  readonly store: 'relational' | 'document'
  readonly relations: readonly Reference[]
}

/** @throws Problem `validation_failed` that names the reference; `not_supported` if the documents are in MongoDB */
export async function checkReferences(
  scope: AdminScope,
  references: readonly Reference[],
  referring: Referring,
): Promise<void> {
  if (references.length === 0) return
  const { workspaceId, collection, store, mode, hasDocumentStore } = referring
  if (mode !== 'enforce')
    throw bodyProblem('/references', 'need mode enforce', 'references need mode enforce.')
  if (hasDocumentStore && store === 'document')
    throw new Problem('not_supported', {
      detail:
        'Documents of this store are in MongoDB, which keeps no references. Declare the store relational.',
    })
  const others = await scope.rows<Other>(sql`
    select collection, store, relations from schemas where workspace_id = ${workspaceId} and collection <> ${collection}`)
  const formats = formatsOf(referring.schema)
  const budget = new CpuBudget()
  for (const [index, reference] of references.entries()) {
    const fault = faultOf(reference, { ...referring, formats }, others)
    if (fault !== undefined) throw problemAt(index, ...fault)
    if (reference.on_delete !== 'set_null') continue
    const { schema } = referring
    const property = Object(schema['properties'])[reference.field]
    if ((await findViolation(scope, { schema, property, value: null }, budget)) !== undefined)
      throw problemAt(index, 'on_delete', withoutNull(reference))
  }
  checkNames(references, collection, others)
}

const withoutNull = ({ field, as: name }: Reference) =>
  `set_null of the reference ${name} needs a field that may be null: declare ${field} as {"type": ["string", "null"], "format": "uuid"}`

function faultOf(
  { field, collection, as: name }: Reference,
  { schema, formats, hasDocumentStore, ...referring }: Referring & { formats: ReadonlyMap<string, Format> },
  others: readonly Other[],
): [member: string, detail: string] | undefined {
  if (formats.get(field) !== 'uuid')
    return ['field', `${field} is not declared as a string with the format uuid`]
  if (Object.hasOwn(Object(schema['properties']), name)) return ['as', `${name} is a field of the documents`]
  if (collection === referring.collection) return undefined
  const target = others.find((other) => other.collection === collection)
  if (target === undefined) return ['collection', `${collection} is not declared in this workspace`]
  if (hasDocumentStore && target.store === 'document')
    return ['collection', `the documents of ${collection} are in MongoDB`]
  return undefined
}

/** In `expand` of each collection, a name means one thing. */
function checkNames(references: readonly Reference[], collection: string, others: readonly Other[]): void {
  const taken = new Set(others.flatMap((other) => namesOf(other.collection, other.relations)))
  for (const [index, reference] of references.entries()) {
    if (references.findIndex(({ field }) => field === reference.field) !== index)
      throw problemAt(index, 'field', `${reference.field} has two references`)
    for (const name of namesOf(collection, [reference])) {
      if (taken.has(name)) {
        const [of = '', word = ''] = name.split('/')
        const member = word === reference.inverse && of === reference.collection ? 'inverse' : 'as'
        throw problemAt(index, member, `${of} has another reference of the name ${word}`)
      }
      taken.add(name)
    }
  }
}

const namesOf = (collection: string, references: readonly Reference[]): string[] =>
  references.flatMap(({ as: name, inverse, collection: target }) => [
    `${collection}/${name}`,
    ...(inverse === undefined ? [] : [`${target}/${inverse}`]),
  ])

/** The column that holds the ids of a reference. @returns undefined if a build that knows no references has changed the table */
export const columnOf = (
  { field }: Pick<Reference, 'field'>,
  columns: readonly TableColumn[],
): string | undefined =>
  columns.find(({ property, canonical }) => property === field && canonical?.isReference === true)?.column

/** The key under which the references that lead to a collection are cached. */
export const referringKey = (collection: string): string => `referring/${collection}`
