/** Documents of one collection: `from('bookings')` queries and changes them. */

import { LiveList, type LiveOptions } from './live.ts'
import { type CallOptions, newKey, readJson, type Transport } from './transport.ts'
import type {
  AnyCollection,
  CollectionType,
  DocumentOf,
  ExpandedOf,
  FieldsOf,
  Filter,
  FoundFields,
} from './types.ts'
import { type ExpandOptions, filterOf, type Members, NOTHING, type Page, type Wanted } from './wanted.ts'

export interface PageOptions extends CallOptions {
  /** Documents of a page, 1 to 1,000. Default: 50. */
  readonly size?: number
  /** `page.next` of the page before. */
  readonly after?: string
  readonly count?: 'exact' | 'estimated'
  readonly position?: boolean
}

/** The body of an aggregate (docs/aggregates.md). */
export interface AggregateBody {
  readonly group?: readonly string[] | Readonly<Record<string, unknown>>
  readonly measures?: Readonly<Record<string, unknown>>
  readonly having?: Readonly<Record<string, unknown>>
  readonly sort?: Readonly<Record<string, 1 | -1>> | readonly string[]
  readonly limit?: number
  readonly after?: string
}

/** Changes of fields in place, without reading the document (docs/collections.md). */
export interface OperatorsBody {
  readonly set?: Readonly<Record<string, unknown>>
  readonly unset?: readonly string[]
  readonly inc?: Readonly<Record<string, number | string>>
  readonly push?: Readonly<Record<string, unknown>>
  readonly pull?: Readonly<Record<string, unknown>>
  readonly min?: Readonly<Record<string, unknown>>
  readonly max?: Readonly<Record<string, unknown>>
  readonly now?: readonly string[]
}

export interface WriteOptions extends CallOptions {
  /** The version that the document must have, or the write is refused with `precondition_failed`. */
  readonly ifVersion?: number
}

/** Adds to a query. Each call returns a new one, so a query can be kept and narrowed in several ways. */
export class Query<C, T extends CollectionType, D> implements AsyncIterable<D> {
  protected readonly transport: Transport
  readonly name: string
  protected readonly wanted: Wanted

  constructor(transport: Transport, name: string, wanted: Wanted = NOTHING) {
    this.transport = transport
    this.name = name
    this.wanted = wanted
  }

  /** Documents that match all filters. */
  where(filter: Filter<T>): Query<C, T, D> {
    return this.#with({ filters: [...this.wanted.filters, filter as Members] })
  }

  /** Documents that have all these words, by a declared search (docs/search.md); by their score unless they have another order. */
  search(text: string): Query<C, T, D & FoundFields> {
    const { filters, sort } = this.wanted
    const ordered = sort.length === 0 ? ['_score.desc'] : sort
    return this.#with({ filters: [...filters, { _search: { wfts: text } }], sort: ordered })
  }

  /** Sorts by a field, after the fields that were named before. Null and missing values come last. */
  order(
    field: (keyof DocumentOf<T> & string) | (string & {}),
    direction: 'asc' | 'desc' = 'asc',
  ): Query<C, T, D> {
    return this.#with({ sort: [...this.wanted.sort, `${field}.${direction}`] })
  }

  /** Returns these fields alone, and `id`. */
  select<F extends keyof DocumentOf<T> & string>(
    ...fields: readonly F[]
  ): Query<C, T, Pick<DocumentOf<T>, F | 'id'>> {
    return this.#with({ select: [...this.wanted.select, ...fields] })
  }

  /** Adds the documents at the other end of a reference, as `_expand.<name>`. */
  expand<R extends keyof T['references'] & string>(
    name: R,
    options: ExpandOptions | true = true,
  ): Query<C, T, D & { readonly _expand: { readonly [N in R]: ExpandedOf<C, T, N> } }> {
    return this.#with({ expand: { ...this.wanted.expand, [name]: options } })
  }

  /** One page. */
  async page({ size, after, count, position, ...options }: PageOptions = {}): Promise<Page<D>> {
    const { sort, select, expand } = this.wanted
    const body = {
      filter: filterOf(this.wanted),
      ...(sort.length > 0 && { sort }),
      ...(select.length > 0 && { select }),
      ...(Object.keys(expand).length > 0 && { expand }),
      ...(size !== undefined && { limit: size }),
      ...{ after, count, position },
    }
    return (await this.post('query', body, options)) as Page<D>
  }

  /** The first document, or undefined if none matches. */
  async first(options: CallOptions = {}): Promise<D | undefined> {
    const { data } = await this.page({ ...options, size: 1 })
    return data[0]
  }

  /** How many documents match. */
  async count(options: CallOptions & { readonly estimated?: boolean } = {}): Promise<number> {
    const { estimated, ...rest } = options
    const { page } = await this.page({ ...rest, size: 1, count: estimated === true ? 'estimated' : 'exact' })
    return page.total ?? 0
  }

  /** All documents, page by page, as they are asked for. */
  async *[Symbol.asyncIterator](): AsyncGenerator<D> {
    for (let after: string | undefined; ; ) {
      const { data, page } = await this.page({ size: 200, ...(after !== undefined && { after }) })
      yield* data
      if (page.next === null) return
      after = page.next
    }
  }

  /** Counts, sums and groups of the documents that match. @example from('sales').aggregate({ group: ['status'], measures: { n: { count: true } } }) */
  async aggregate<G = Record<string, unknown>>(
    body: AggregateBody,
    options: CallOptions = {},
  ): Promise<{ readonly data: G[]; readonly page: { readonly next: string | null } }> {
    const filter = filterOf(this.wanted)
    return (await this.post('aggregate', { ...body, filter }, options)) as never
  }

  /** The documents that match, kept up to date: see {@link LiveList}. */
  live(options: LiveOptions = {}): LiveList<D> {
    return new LiveList<D>(this.transport, this.name, this.wanted, options)
  }

  protected get path(): string {
    return `/v1/collections/${encodeURIComponent(this.name)}`
  }

  protected post(verb: string, body: object, options: CallOptions): Promise<unknown> {
    const sent = { method: 'POST', path: `${this.path}/${verb}`, ...json(body), isRepeatable: true }
    return this.transport.send(sent, options, readJson)
  }

  #with<N = D>(more: Partial<Wanted>): Query<C, T, N> {
    return new Query<C, T, N>(this.transport, this.name, { ...this.wanted, ...more })
  }
}

const JSON_TYPE = 'application/json'
const json = (body: object, type = JSON_TYPE) => ({
  headers: { 'content-type': type },
  body: JSON.stringify(body),
})

/** A collection: a query for all its documents, and the changes of single ones. */
export class Collection<C = object, T extends CollectionType = AnyCollection> extends Query<
  C,
  T,
  DocumentOf<T>
> {
  /** @throws TenonError `not_found` */
  get(id: string, options: CallOptions = {}): Promise<DocumentOf<T>> {
    return this.#send('GET', id, undefined, options)
  }

  /** Adds a document. Repeating the call with the same `idempotencyKey` adds it once. */
  create(fields: FieldsOf<T>, options: CallOptions & { readonly id?: string } = {}): Promise<DocumentOf<T>> {
    const { id, ...rest } = options
    if (id === undefined) return this.#send('POST', undefined, json(fields), rest)
    return this.#send('PUT', id, json(fields), withHeaders(rest, { 'if-none-match': '*' }))
  }

  /** Updates the document that has the same values in these unique fields, or adds one. */
  upsert(
    fields: FieldsOf<T>,
    options: CallOptions & { readonly on: readonly (keyof FieldsOf<T> & string)[] },
  ): Promise<DocumentOf<T>> {
    const { on, ...rest } = options
    return this.#send('POST', undefined, json(fields), rest, `?upsert=${encodeURIComponent(on.join())}`)
  }

  /** Sets the given fields; null removes one (RFC 7396). */
  update(id: string, fields: Patch<FieldsOf<T>>, options: WriteOptions = {}): Promise<DocumentOf<T>> {
    return this.#send('PATCH', id, json(fields, 'application/merge-patch+json'), ifVersion(options))
  }

  /** Changes fields in place: `change(id, { inc: { stock: -1 } })`. */
  change(id: string, operators: OperatorsBody, options: WriteOptions = {}): Promise<DocumentOf<T>> {
    return this.#send('PATCH', id, json(operators, 'application/vnd.tenon.ops+json'), ifVersion(options))
  }

  /** Replaces all fields. */
  replace(id: string, fields: FieldsOf<T>, options: WriteOptions = {}): Promise<DocumentOf<T>> {
    return this.#send('PUT', id, json(fields), ifVersion(options), '?replace=true')
  }

  /** @throws TenonError `not_found` */
  async delete(id: string, options: WriteOptions = {}): Promise<void> {
    await this.#send('DELETE', id, undefined, ifVersion(options))
  }

  async #send(
    method: string,
    id: string | undefined,
    sent: { readonly headers: Record<string, string>; readonly body: string } | undefined,
    options: CallOptions,
    query = '',
  ): Promise<DocumentOf<T>> {
    const { idempotencyKey = newKey(), ...rest } = options
    const takesKey = method !== 'GET' && method !== 'DELETE'
    const headers = { ...sent?.headers, ...(takesKey && { 'idempotency-key': idempotencyKey }) }
    const below = id === undefined ? '' : `/${encodeURIComponent(id)}`
    const path = `${this.path}/documents${below}${query}`
    const body = sent === undefined ? {} : { body: sent.body }
    return (await this.transport.send(
      { method, path, headers, ...body, isRepeatable: true },
      rest,
      readJson,
    )) as never
  }
}

/** Fields to set; null removes one. */
type Patch<F> = { readonly [N in keyof F]?: F[N] | null }

const withHeaders = (options: CallOptions, headers: Record<string, string>): CallOptions => ({
  ...options,
  headers: { ...options.headers, ...headers },
})

function ifVersion({ ifVersion: version, ...options }: WriteOptions): CallOptions {
  return version === undefined ? options : withHeaders(options, { 'if-match': `"v${version}"` })
}
