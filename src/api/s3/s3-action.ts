/** An operation of the S3 API: which request it is, the operation of the platform behind it, and the form of its reply. */

import type { FastifyReply } from 'fastify'
import type { AnyOperation } from '../../core/operation.ts'
import type { Exchange } from '../request-pipeline.ts'
import type { S3Request } from './s3-request.ts'

/** Parts of a request that its reply is made of. */
export interface S3Exchange extends Omit<Exchange, 'request'> {
  readonly request: S3Request
}

/** The output of an operation. */
export type Output<Operation extends { run: (...input: never[]) => Promise<unknown> }> = Awaited<
  ReturnType<Operation['run']>
>

export interface S3Action {
  /** As S3 calls it. */
  readonly name: string
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  readonly on: 'service' | 'bucket' | 'object'
  /** The query parameters that select it, such as `tagging`. */
  readonly selectors?: readonly string[]
  /** The header that selects it. */
  readonly header?: string
  readonly operation: AnyOperation
  /** @returns the input of the operation */
  readonly bind: (
    request: S3Request,
    recheck: () => Promise<void>,
  ) => Record<string, unknown> | Promise<Record<string, unknown>>
  readonly send: (output: never, exchange: S3Exchange) => FastifyReply
}
