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
const OnDelete = Type.Union(
  [Type.Literal('restrict'), Type.Literal('cascade'), Type.Literal('set_null'), Type.Literal('none')],
  {
    description:
      'Effect of deleting a document that others refer to. `restrict`: it cannot be deleted. `cascade`: they are deleted with it. `set_null`: their field becomes `null`. `none`: they keep an id that no document has; the only one if either collection is in MongoDB.',
  },
)
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

/** True if a foreign key of PostgreSQL holds the reference: then what it leads to is there. */
export const isHeld = ({ on_delete }: Pick<Reference, 'on_delete'>): boolean => on_delete !== 'none'

/**
 * @param inMongo true if the documents that refer are in MongoDB
 * @throws Problem `validation_failed` for one that needs a name
 */
export function referencesOf(requested: RequestedReferences, inMongo: boolean): Reference[] {
  return requested.map((one, index) => {
    const { field, as: name = /^(.+)_id$/.exec(field)?.[1] } = one
    const { on_delete = inMongo ? 'none' : 'restrict' } = one
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

/** @throws Problem `validation_failed` that names the reference; `not_supported` for one that MongoDB cannot hold */
export async function checkReferences(
  scope: AdminScope,
  references: readonly Reference[],
  referring: Referring,
): Promise<void> {
  if (references.length === 0) return
  const { workspaceId, collection, mode } = referring
  if (mode !== 'enforce')
    throw bodyProblem('/references', 'need mode enforce', 'references need mode enforce.')
  const others = await scope.rows<Other>(sql`
    select collection, store, relations from schemas where workspace_id = ${workspaceId} and collection <> ${collection}`)
  const formats = formatsOf(referring.schema)
  const budget = new CpuBudget()
  for (const [index, reference] of references.entries()) {
    const fault = faultOf(reference, { ...referring, formats }, others)
    if (fault !== undefined) throw problemAt(index, ...fault)
    requireHolder(reference, referring, others)
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

/** @throws Problem `not_supported` for one that a foreign key would have to hold, if either end is in MongoDB */
function requireHolder(
  reference: Reference,
  { collection: own, store, hasDocumentStore }: Referring,
  others: readonly Other[],
): void {
  const { as: name, collection, on_delete } = reference
  const target = others.find((other) => other.collection === collection) ?? { store }
  if (!hasDocumentStore || !isHeld(reference) || (store !== 'document' && target.store !== 'document')) return
  throw new Problem('not_supported', {
    detail: `The reference ${name} cannot have "on_delete": ${JSON.stringify(on_delete)}: the documents of ${store === 'document' ? own : collection} are in MongoDB, which has no foreign keys.`,
    hint: 'Declare it with "on_delete": "none", or both collections with "store": "relational".',
  })
}

function faultOf(
  { field, collection, as: name }: Reference,
  { schema, formats, ...referring }: Referring & { formats: ReadonlyMap<string, Format> },
  others: readonly Other[],
): [member: string, detail: string] | undefined {
  if (formats.get(field) !== 'uuid')
    return ['field', `${field} is not declared as a string with the format uuid`]
  if (Object.hasOwn(Object(schema['properties']), name)) return ['as', `${name} is a field of the documents`]
  if (collection === referring.collection) return undefined
  const isDeclared = others.some((other) => other.collection === collection)
  return isDeclared ? undefined : ['collection', `${collection} is not declared in this workspace`]
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
