/** `@tenon/client`: documents, streams, files and every operation of the API, from browsers and servers. */

import { Collection } from './collection.ts'
import { type ClientOptions, Transport } from './transport.ts'
import type { CollectionTypes, TypeOf } from './types.ts'

export type {
  AggregateBody,
  Collection,
  ExpandOptions,
  OperatorsBody,
  Page,
  PageOptions,
  Query,
  WriteOptions,
} from './collection.ts'
export { type InputFault, TenonError } from './errors.ts'
export type { LiveList, LiveOptions, LiveSnapshot } from './live.ts'
export type { Frame, StreamOptions, StreamState } from './streams.ts'
export type { CallOptions, ClientOptions, TokenSource } from './transport.ts'
export type { CollectionType, DocumentOf, FieldsOf, Filter, SystemFields } from './types.ts'

export interface Client<C extends CollectionTypes = object> {
  /** The documents of a collection. */
  from<N extends (keyof C & string) | (string & {})>(name: N): Collection<C, TypeOf<C, N>>
}

/**
 * A client of one workspace, as one caller.
 * @example
 * const tenon = createClient<Collections>({ url: 'https://api.example.com', apikey: 'anon_…' })
 * const open = await tenon.from('bookings').where({ status: 'open' }).order('starts_at').page({ size: 20 })
 */
export function createClient<C extends CollectionTypes = object>(options: ClientOptions): Client<C> {
  const transport = new Transport(options)
  return {
    from: (name) => new Collection(transport, name) as never,
  }
}
