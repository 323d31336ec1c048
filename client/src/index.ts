/** `@tenon/client`: documents, streams, files and every operation of the API, from browsers and servers. */

import { Collection } from './collection.ts'
import { OPERATIONS } from './generated/operations.ts'
import type { Operations } from './generated/types.ts'
import { groupsOf } from './operations.ts'
import { type ClientOptions, Transport } from './transport.ts'
import type { CollectionTypes, TypeOf } from './types.ts'
import { type UploadOptions, upload } from './upload.ts'

export type {
  AggregateBody,
  Collection,
  OperatorsBody,
  PageOptions,
  Query,
  WriteOptions,
} from './collection.ts'
export { type ClientCode, type InputFault, TenonError } from './errors.ts'
export type { ProblemCode } from './generated/problem-codes.ts'
/** The resources of the API, such as `Api.Tenant`. */
export type * as Api from './generated/types.ts'
export type { LiveList, LiveOptions, LiveSnapshot } from './live.ts'
export type { Frame, StreamOptions, StreamState } from './streams.ts'
export type { CallOptions, ClientOptions, TokenSource } from './transport.ts'
export type {
  CollectionType,
  DocumentOf,
  FieldsOf,
  Filter,
  Operators,
  ReferenceType,
  SystemFields,
} from './types.ts'
export type { UploadOptions } from './upload.ts'
export type { ExpandOptions, Page } from './wanted.ts'

interface Documents<C extends CollectionTypes> {
  /** The documents of a collection. */
  from<N extends (keyof C & string) | (string & {})>(name: N): Collection<C, TypeOf<C, N>>
  /** Sends a file of any size in parts, with progress: `upload(file, { bucket, key, onProgress })`. */
  upload(file: Blob, options: UploadOptions): Promise<void>
}

/** Documents by `from`, and every operation of the API by its group: `tenon.functions.invoke({ id: 'price', input: {…} })`. */
export type Client<C extends CollectionTypes = object> = Documents<C> & Operations

/**
 * A client of one workspace, as one caller.
 * @example
 * const tenon = createClient<Collections>({ url: 'https://api.example.com', apikey: 'anon_…' })
 * const open = await tenon.from('bookings').where({ status: 'open' }).order('starts_at').page({ size: 20 })
 */
export function createClient<C extends CollectionTypes = object>(options: ClientOptions): Client<C> {
  const transport = new Transport(options)
  const groups = groupsOf(transport, OPERATIONS)
  const documents: Documents<C> = {
    from: (name) => new Collection(transport, name) as never,
    upload: (file, options) => upload(transport, file, options),
  }
  return Object.assign(groups as unknown as Operations, documents)
}
