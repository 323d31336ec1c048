/** The types of documents and filters: of declared collections as `tenon types` writes them, and of any others. */

/** A reference by which `expand` finds other documents. */
export interface ReferenceType {
  readonly collection: string
  /** `one`: the document that is referred to; `many`: the documents that refer to this one. */
  readonly kind: 'one' | 'many'
}

/** The types of a declared collection, as `tenon types` writes them. */
export interface CollectionType {
  /** The fields of a document, without those of the platform. */
  readonly fields: object
  readonly references: Readonly<Record<string, ReferenceType>>
}

/** The collections of a workspace by name. Without declarations every collection has any fields. */
export type CollectionTypes = object

export type TypeOf<C, N> = N extends keyof C
  ? C[N] extends CollectionType
    ? C[N]
    : AnyCollection
  : AnyCollection

export interface AnyCollection {
  readonly fields: Readonly<Record<string, unknown>>
  readonly references: Readonly<Record<string, ReferenceType>>
}

/** The fields of the platform. */
export interface SystemFields {
  readonly id: string
  readonly _created_at: string
  readonly _updated_at: string
  readonly _version: number
  /** Id of the end user who created the document; absent if a key created it. */
  readonly _owner?: string
  /** How the document differs from a schema in mode `warn`, in the answer to a write. */
  readonly _warnings?: readonly {
    readonly pointer: string
    readonly keyword: string
    readonly detail: string
  }[]
}

/** Fields that a query adds: of a search, of `near`, of a distance. */
export interface FoundFields {
  readonly _similarity?: number
  readonly _distance?: number
  readonly _score?: number
  readonly _highlight?: Readonly<Record<string, string>>
}

/** A document as it is returned. */
export type DocumentOf<T extends CollectionType> = T['fields'] & SystemFields

/** The fields of a document that is written. */
export type FieldsOf<T extends CollectionType> = T['fields']

type Present<V> = Exclude<V, null | undefined>

/** The operators of a field (docs/queries.md). */
export interface Operators<V> {
  readonly eq?: V | null
  readonly neq?: V | null
  readonly gt?: V
  readonly gte?: V
  readonly lt?: V
  readonly lte?: V
  readonly in?: readonly V[]
  readonly like?: string
  readonly ilike?: string
  readonly is?: 'null' | 'not_null' | boolean
  readonly isdistinct?: V | null
  readonly exists?: boolean
  readonly cs?: unknown
  readonly cd?: unknown
  readonly ov?: readonly unknown[]
  readonly json_path_eq?: readonly [path: string, value: unknown]
  readonly near?: string
  readonly not?: Operators<V>
  readonly 'eq(any)'?: readonly V[]
  readonly 'like(any)'?: readonly string[]
  readonly 'like(all)'?: readonly string[]
  readonly 'ilike(any)'?: readonly string[]
  readonly 'ilike(all)'?: readonly string[]
}

/** A filter on the documents of a reference. */
interface Related {
  readonly some?: Readonly<Record<string, unknown>>
  readonly none?: Readonly<Record<string, unknown>>
}

type FieldFilter<V> =
  | (Present<V> extends object ? Operators<Present<V>> : Present<V> | Operators<Present<V>>)
  | null

/** Of an undeclared collection, no names of references are known. */
type RelatedFilter<T extends CollectionType> = string extends keyof T['references']
  ? unknown
  : { readonly [R in keyof T['references']]?: Related }

/** All members hold: `{ status: 'open', age: { gte: 18 }, 'customer.plan': 'pro', $or: [{…}, {…}] }`. */
export type Filter<T extends CollectionType = AnyCollection> = {
  readonly [F in keyof DocumentOf<T>]?: FieldFilter<DocumentOf<T>[F]>
} & RelatedFilter<T> & {
    readonly [path: `${string}.${string}`]: unknown
  } & {
    readonly $or?: readonly Filter<T>[]
    readonly $and?: readonly Filter<T>[]
    readonly $not?: Filter<T>
  }

/** The documents that `expand` adds, by the names of references. */
export type ExpandedOf<
  C,
  T extends CollectionType,
  R extends keyof T['references'],
> = T['references'][R] extends { readonly collection: infer N; readonly kind: infer K }
  ? K extends 'one'
    ? DocumentOf<TypeOf<C, N>> | null
    : readonly DocumentOf<TypeOf<C, N>>[]
  : unknown
