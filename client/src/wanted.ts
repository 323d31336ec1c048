/** The parts of a query, and the page of documents that answers it. */

/** A page of documents. */
export interface Page<D> {
  readonly data: D[]
  readonly page: {
    readonly size: number
    /** For `after` of the next page; null on the last one. */
    readonly next: string | null
    readonly has_more: boolean
    /** The number of all documents that match, if `count` asked for it. */
    readonly total?: number
    /** The position from which changes of the collection continue, if `position` requested it. */
    readonly position?: string
  }
}

/** Which documents of a reference `expand` adds, and what of them. */
export interface ExpandOptions {
  readonly select?: readonly string[]
  readonly filter?: Readonly<Record<string, unknown>>
  readonly sort?: Readonly<Record<string, 1 | -1>> | readonly string[]
  /** Documents for each, 1 to 100. Default: 20. */
  readonly limit?: number
  readonly count?: true
  readonly expand?: Readonly<Record<string, ExpandOptions | true>>
}

/** A filter as the JSON form of a query has it. */
export type Members = Readonly<Record<string, unknown>>

/** The parts of a query. A document matches if it matches all `filters`. */
export interface Wanted {
  readonly filters: readonly Members[]
  readonly sort: readonly string[]
  readonly select: readonly string[]
  readonly expand: Readonly<Record<string, ExpandOptions | true>>
}

export const NOTHING: Wanted = { filters: [], sort: [], select: [], expand: {} }

/** One filter out of several. */
export const filterOf = ({ filters }: Wanted): Members =>
  filters.length < 2 ? (filters[0] ?? {}) : { $and: filters }
