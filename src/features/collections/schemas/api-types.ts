/** The API types of a declaration, and its indexes and unique constraints. */

import Type, { type Static } from 'typebox'
import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { AnyName, Id, Time } from '../../../access/operation-builders.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { canonical, shortQuote } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { Condition, fieldsOf, readCondition } from '../constraints/condition.ts'
import { Checks, columnsOfFields, Exclusions } from '../constraints/constraint.ts'
import { CREATED_AT, Expiry } from '../expiry/expiry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { FieldTypes } from '../query/typed-filter.ts'
import { Reference, RequestedReferences } from '../references/reference.ts'
import { Access } from '../rules/access.ts'
import { CollectionName, highestNumber, type Scalar, type TableColumn } from './columns.ts'

const FieldNames = Type.Array(Type.String(), {
  minItems: 1,
  maxItems: COLLECTION_LIMITS.indexFieldsMax,
  uniqueItems: true,
})

/** The indexes that a declaration may request. */
const RequestedIndexList = Type.Array(Type.Object({ fields: FieldNames }, { additionalProperties: false }), {
  maxItems: COLLECTION_LIMITS.indexesMax,
  description:
    'Indexes on declared scalar fields, in the order of comparison: `[{"fields": ["status", "score"]}]`.',
})
const RequestedUnique = Type.Array(
  Type.Union([
    FieldNames,
    Type.Object({ fields: FieldNames, where: Type.Optional(Condition) }, { additionalProperties: false }),
  ]),
  {
    maxItems: COLLECTION_LIMITS.indexesMax,
    description:
      'Declared scalar fields whose values must be unique: `[["email"]]`, or only among the documents that meet a condition: `[{"fields": ["slug"], "where": {"state": "published"}}]`. `null` and missing values never conflict.',
  },
)

const Trigrams = Type.Array(Type.String(), {
  maxItems: COLLECTION_LIMITS.trigramsMax,
  uniqueItems: true,
  description: 'Declared texts that a list finds by similarity, also with typos: `title=near.mlik`.',
})

const Arrays = Type.Array(Type.String(), {
  maxItems: COLLECTION_LIMITS.arraysMax,
  uniqueItems: true,
  description:
    'Declared arrays with an index of their elements, which serves `cs` and `ov`: `tags=cs.{a,b}`.',
})

const Geo = Type.Array(Type.String(), {
  minItems: 2,
  maxItems: 2,
  uniqueItems: true,
  description:
    'Declared numbers with the latitude and the longitude of a document in degrees, `["lat", "lng"]`, by whose distance from a place a list is ordered: `order=_distance(52.52,13.405)`.',
})

/** Names of the configurations that PostgreSQL has for the languages of texts. */
const LANGUAGES = [
  ...[
    'simple',
    'arabic',
    'armenian',
    'basque',
    'catalan',
    'danish',
    'dutch',
    'english',
    'estonian',
    'finnish',
  ],
  ...['french', 'german', 'greek', 'hindi', 'hungarian', 'indonesian', 'irish', 'italian', 'lithuanian'],
  ...['nepali', 'norwegian', 'portuguese', 'romanian', 'russian', 'serbian', 'spanish', 'swedish', 'tamil'],
  ...['turkish', 'yiddish'],
] as const

const Weight = Type.Union([Type.Literal('A'), Type.Literal('B'), Type.Literal('C'), Type.Literal('D')])
const TextSearch = Type.Object(
  {
    fields: Type.Record(AnyName, Weight, {
      minProperties: 1,
      maxProperties: COLLECTION_LIMITS.searchFieldsMax,
      description: 'Declared texts, each with its weight in the score: `A` counts most, `D` least.',
    }),
    language: Type.Unsafe<(typeof LANGUAGES)[number]>(
      Type.String({
        enum: LANGUAGES,
        description: 'Language of the texts; `simple`: words are compared as they are written.',
      }),
    ),
  },
  {
    additionalProperties: false,
    description:
      'Texts that a list finds by their words, `_search=wfts.fresh milk -skim`: `{"fields": {"title": "A", "body": "B"}, "language": "english"}`.',
  },
)
export type TextSearch = Static<typeof TextSearch>

/** As a declaration shows it. */
export const IndexState = component(
  'CollectionIndex',
  Type.Object({
    name: Type.String(),
    fields: Type.Array(Type.String()),
    unique: Type.Boolean(),
    kind: Type.Optional(
      Type.Union(
        [Type.Literal('trigram'), Type.Literal('text'), Type.Literal('array'), Type.Literal('geo')],
        {
          description:
            'Kind of the index: `trigram` serves `near`, `like` and `ilike`, `text` serves `_search`, `array` serves `cs` and `ov`, `geo` serves `_distance`.',
        },
      ),
    ),
    weights: Type.Optional(
      Type.Array(Weight, { description: 'Weights of the fields of a search, in their order.' }),
    ),
    language: Type.Optional(Type.String({ description: 'Language of a search.' })),
    where: Type.Optional(Condition),
    state: Type.Union([Type.Literal('building'), Type.Literal('ready'), Type.Literal('failed')]),
    reason: Type.Optional(Type.String({ description: 'Reason why the index could not be built.' })),
  }),
  { name: 'bookings_court_id', fields: ['court_id'], unique: false, state: 'ready' },
)

export interface Index extends Static<typeof IndexState> {
  /** Those of its fields, and then those that its condition uses. */
  readonly columns: readonly string[]
  /** True if row-level security lets PostgreSQL use the index (0012-search.sql). Of other kinds absent, since it always does. */
  readonly leakproof?: true
}

/** True if an index has the values of all documents in their order, not only those that meet a condition: so it serves queries and upserts. */
export const isOfAll = ({ where, kind }: Pick<Index, 'where' | 'kind'>): boolean =>
  where === undefined && (kind === undefined || kind === 'geo')

export interface RequestedIndexes {
  readonly indexes: readonly { readonly fields: readonly string[] }[]
  readonly unique: readonly (
    | readonly string[]
    | { readonly fields: readonly string[]; readonly where?: Condition | undefined }
  )[]
  /** Each has an index by which texts are found by similarity. */
  readonly trigram: readonly string[]
  /** Each has an index by which documents are found by elements. */
  readonly arrays: readonly string[]
  /** They have an index by which documents are found around a place. */
  readonly geo: readonly string[] | null
  /** It has an index by which documents are found by their words. */
  readonly search: TextSearch | null
  /** Each has an index of its field. */
  readonly references: readonly { readonly field: string }[]
  /** It has an index of its field. */
  readonly ttl: { readonly field: string } | null
}

type IndexDefinition = Pick<
  Index,
  'fields' | 'unique' | 'where' | 'kind' | 'weights' | 'language' | 'leakproof'
>

/** Requested indexes in one form: unique indexes last, no duplicates. */
export function indexDefinitions({
  indexes,
  unique,
  trigram,
  search,
  arrays,
  geo,
  references,
  ttl,
}: RequestedIndexes): IndexDefinition[] {
  const definitions: IndexDefinition[] = [
    ...(search === null ? [] : [ofSearch(search)]),
    ...(geo === null ? [] : [{ fields: [...geo], unique: false, kind: 'geo' as const }]),
    ...arrays.map((field) => ({ fields: [field], unique: false, kind: 'array' as const })),
    ...trigram.map((field) => ({ fields: [field], unique: false, kind: 'trigram' as const })),
    ...indexedBy({ references, ttl }).map(({ field }) => ({ fields: [field], unique: false })),
    ...indexes.map(({ fields }) => ({ fields: [...fields], unique: false })),
    ...unique.map((one) => {
      const { fields, where } = 'fields' in one ? one : { fields: one }
      return { fields: [...fields], unique: true, ...(where !== undefined && { where }) }
    }),
  ]
  return [...new Map(definitions.map((one) => [JSON.stringify(one), one])).values()]
}

const ofSearch = ({ fields, language }: TextSearch): IndexDefinition => ({
  fields: Object.keys(fields),
  unique: false,
  kind: 'text',
  weights: Object.values(fields),
  language,
})

/** The members of a declaration that bring an index of their field: references, and the expiry. */
const indexedBy = ({ references, ttl }: Pick<RequestedIndexes, 'references' | 'ttl'>) => [
  ...references,
  ...(ttl === null ? [] : [ttl]),
]

/** The indexes of a declaration in the form in which they are requested: without those that its references and its expiry have. */
export function requestedOf(
  indexes: readonly Index[],
  by: Pick<RequestedIndexes, 'references' | 'ttl'>,
): Pick<RequestedIndexes, 'indexes' | 'unique' | 'trigram' | 'search' | 'arrays' | 'geo'> {
  const isOfReference = ({ fields: [field, ...others] }: Index) =>
    others.length === 0 && indexedBy(by).some((one) => one.field === field)
  return {
    indexes: indexes
      .filter((index) => !index.unique && index.kind === undefined && !isOfReference(index))
      .map(({ fields }) => ({ fields })),
    unique: indexes
      .filter(({ unique }) => unique)
      .map(({ fields, where }) => (where === undefined ? fields : { fields, where })),
    trigram: indexes.filter(({ kind }) => kind === 'trigram').flatMap(({ fields }) => fields),
    arrays: indexes.filter(({ kind }) => kind === 'array').flatMap(({ fields }) => fields),
    search: searchOf(indexes),
    geo: indexes.find(({ kind }) => kind === 'geo')?.fields ?? null,
  }
}

function searchOf(indexes: readonly Index[]): TextSearch | null {
  const index = indexes.find(({ kind }) => kind === 'text')
  if (index === undefined) return null
  const { fields, weights = [], language } = index
  const weighted = fields.map((field, at) => [field, weights[at] ?? 'D'] as const)
  return { fields: Object.fromEntries(weighted), language: language as TextSearch['language'] }
}

/**
 * Rejects indexes that cannot be built.
 * @throws Problem `validation_failed` for fields without a typed column; `not_supported` if the documents are in MongoDB
 */
export function checkIndexes(
  definitions: readonly IndexDefinition[],
  {
    mode,
    scalars,
    arrays,
    inMongo,
    ttl,
  }: {
    mode: string
    scalars: ReadonlyMap<string, Scalar>
    arrays: ReadonlySet<string>
    inMongo: boolean
    ttl: RequestedIndexes['ttl']
  },
): void {
  if (definitions.length === 0) return
  if (mode !== 'enforce')
    throw indexProblem(
      'indexes',
      'indexes and unique need mode enforce: in other modes a value may have another type than its column',
    )
  if (definitions.length > COLLECTION_LIMITS.indexesMax)
    throw indexProblem(
      'indexes',
      `a collection has at most ${COLLECTION_LIMITS.indexesMax} indexes, unique ones included`,
    )
  for (const { fields, unique, kind } of definitions) {
    if (kind === 'trigram' || kind === 'text') checkTexts(kind === 'text' ? 'search' : kind, fields, scalars)
    if (kind === 'geo') checkNumbers(fields, scalars)
    if (kind === 'array') {
      checkArray(fields, arrays)
      continue
    }
    const unknown = fields.find((field) => field !== '_owner' && field !== ttl?.field && !scalars.has(field))
    if (unknown !== undefined) throw indexProblem(unique ? 'unique' : 'indexes', notScalar(unknown, scalars))
  }
  if (inMongo)
    throw new Problem('not_supported', {
      detail:
        'Documents of this store are in MongoDB, in one collection for all tenants, which cannot have indexes of one tenant. Declare the store relational.',
    })
}

function checkNumbers(fields: readonly string[], scalars: ReadonlyMap<string, Scalar>): void {
  const other = fields.find((field) => scalars.get(field) !== 'number')
  if (other !== undefined) throw indexProblem('geo', `${shortQuote(other)} is not declared as a number`)
}

function checkArray(fields: readonly string[], arrays: ReadonlySet<string>): void {
  const other = fields.find((field) => !arrays.has(field))
  if (other !== undefined) throw indexProblem('arrays', `${shortQuote(other)} is not declared as an array`)
}

function checkTexts(
  member: 'trigram' | 'search',
  fields: readonly string[],
  scalars: ReadonlyMap<string, Scalar>,
): void {
  const other = fields.find((field) => scalars.get(field) !== 'string')
  if (other !== undefined) throw indexProblem(member, `${shortQuote(other)} is not declared as a string`)
}

function notScalar(field: string, scalars: ReadonlyMap<string, Scalar>): string {
  const near = nearest(field, [...scalars.keys()])
  const hint = near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`
  return `${shortQuote(field)} is not declared as string, integer, number or boolean${hint}`
}

const indexProblem = (name: 'indexes' | 'unique' | 'trigram' | 'search' | 'arrays' | 'geo', detail: string) =>
  bodyProblem(`/${name}`, detail, `${name}: ${detail}`)

/** The indexes of a table before a change. `last_index`: the highest number in all previous declarations. */
export interface IndexesBefore {
  readonly indexes: readonly Index[]
  readonly last_index: number
  /** Builds failed indexes again. */
  readonly retryFailed: boolean
}

/** An index over the same fields and columns stays as it is. */
export function indexesOf(
  definitions: readonly IndexDefinition[],
  columns: readonly TableColumn[],
  types: FieldTypes,
  before: IndexesBefore = { indexes: [], last_index: 0, retryFailed: false },
): Index[] {
  let last = highestNumber(
    before.last_index,
    before.indexes.map(({ name }) => name),
  )
  return definitions.map((one) => {
    const { where } = one
    const ofCondition =
      where === undefined ? [] : columnsOfFields(fieldsOf(readCondition(where, types)), columns)
    const names = [...one.fields.map((field) => columnOf(field, columns, one.kind)), ...ofCondition]
    const existing = before.indexes.find(
      (index) =>
        index.unique === one.unique &&
        index.kind === one.kind &&
        index.columns.join() === names.join() &&
        index.language === one.language &&
        index.weights?.join() === one.weights?.join() &&
        canonical(index.where ?? null) === canonical(where ?? null) &&
        !(before.retryFailed && index.state === 'failed'),
    )
    if (existing !== undefined) return existing
    last += 1
    return { name: `i${last}`, ...one, columns: names, state: 'ready' }
  })
}

/** The column by which the field is compared; of its texts as they are written for searches. */
function columnOf(field: string, columns: readonly TableColumn[], kind?: Index['kind']): string {
  if (field === '_owner') return 'owner'
  if (field === CREATED_AT) return 'created_at'
  const isOfField = ({ property }: TableColumn) => property === field
  const column = kind === undefined ? columns.findLast(isOfField) : columns.find(isOfField)
  if (column === undefined) throw new TypeError(`${field} has no column`)
  return column.column
}

export const Store = Type.Union([Type.Literal('relational'), Type.Literal('document')])
export const Mode = Type.Union([Type.Literal('off'), Type.Literal('warn'), Type.Literal('enforce')], {
  description:
    'Action for a document that does not match the schema. `enforce`: reject it; `warn`: store it with a warning; `off`: ignore the mismatch.',
})
export const JsonSchema = Type.Record(Type.String(), Type.Unknown(), {
  description:
    'JSON Schema 2020-12 of the fields of a document; references may point only to its own `#/$defs/…`.',
})

/** Members that may be left out when a collection is declared, and all that may change later. */
export const Changeable = {
  mode: Type.Optional(Mode),
  access: Type.Optional(Access),
  indexes: Type.Optional(RequestedIndexList),
  unique: Type.Optional(RequestedUnique),
  trigram: Type.Optional(Trigrams),
  arrays: Type.Optional(Arrays),
  geo: Type.Optional(Type.Union([Geo, Type.Null()])),
  search: Type.Optional(Type.Union([TextSearch, Type.Null()])),
  references: Type.Optional(RequestedReferences),
  checks: Type.Optional(Checks),
  exclude: Type.Optional(Exclusions),
  ttl: Type.Optional(Type.Union([Expiry, Type.Null()])),
}

/** Members of a change that say what becomes of the documents that there are. They are not part of the declaration. */
export const FieldChanges = {
  renamed_from: Type.Optional(
    Type.Record(AnyName, Type.String({ minLength: 1, maxLength: 200 }), {
      maxProperties: COLLECTION_LIMITS.tableColumnsMax,
      description:
        'Former names of fields, by their new names: `{"label": "title"}`. Documents have the new names at once, in the same version. Those that are renamed already are left out.',
    }),
  ),
  backfill: Type.Optional(
    Type.Record(AnyName, Type.Unknown(), {
      maxProperties: COLLECTION_LIMITS.tableColumnsMax,
      description:
        'Values of declared fields for documents that lack them: `{"status": "open"}`. They keep their versions, and no change events are published.',
    }),
  ),
}

export const Schema = component(
  'CollectionSchema',
  Type.Object({
    id: Id('sch'),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    collection: CollectionName,
    store: Store,
    schema: JsonSchema,
    mode: Mode,
    access: Access,
    indexes: Type.Array(IndexState),
    references: Type.Array(Reference),
    checks: Checks,
    exclude: Exclusions,
    ttl: Type.Union([Expiry, Type.Null()]),
    expired_kept: Type.Integer({
      description:
        'Number of expired documents that stay, since others refer to them; at most 1,000 are counted.',
    }),
    revision: Type.Integer({
      description: 'Revision of the declaration, incremented by one with every change.',
    }),
    warnings: Type.Optional(
      Type.Array(Type.Object({ pointer: Type.String(), detail: Type.String() }), {
        description:
          'Warnings about a change: access that it leaves open, rules without a test, and rules that no index serves.',
      }),
    ),
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.schema,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    collection: 'bookings',
    store: 'relational',
    schema: {
      type: 'object',
      required: ['court_id', 'starts_at', 'ends_at'],
      properties: {
        court_id: { type: 'string', format: 'uuid' },
        starts_at: { type: 'string', format: 'date-time' },
        ends_at: { type: 'string', format: 'date-time' },
      },
    },
    mode: 'enforce',
    access: exampleOf(Access),
    indexes: [exampleOf(IndexState)],
    references: [exampleOf(Reference)],
    checks: [{ name: 'ends_after_start', check: { ends_at: { gt: { $field: 'starts_at' } } } }],
    exclude: [{ fields: ['court_id'], range: ['starts_at', 'ends_at'] }],
    ttl: null,
    expired_kept: 0,
    revision: 3,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
export type Schema = Static<typeof Schema>

/** The columns of an index are internal. */
export const COLUMNS = sql`id, tenant_id, workspace_id, collection, store, schema, mode, access,
  (select coalesce(jsonb_agg(i - 'columns' - 'leakproof' order by n), '[]')
    from jsonb_array_elements(indexes) with ordinality as e (i, n)) as indexes, relations as "references", checks,
  (select coalesce(jsonb_agg(x - 'columns' - 'name' order by n), '[]')
    from jsonb_array_elements(exclusions) with ordinality as e (x, n)) as exclude,
  ttl, expired_kept, revision, created_at, updated_at`

export const refOf = ({ tenant_id, workspace_id }: Pick<Schema, 'tenant_id' | 'workspace_id'>) =>
  ({ tenantId: tenant_id, workspaceId: workspace_id }) as WorkspaceRef
