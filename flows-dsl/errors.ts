/** The errors of flows: RFC 7807 objects of the eight standard types (OWS 1.0 "Errors"). */

import { clip, type Json, storableText } from './json.ts'

/** The fields that all errors of one type share. `type` is a URI, `status` follows HTTP. */
export interface ErrorKind {
  readonly type: string
  readonly status: number
  readonly title: string
}

/**
 * The answer of a server that failed a call: its status, the headers with lower-case names, and the content, decoded by its
 * type. If it was too large, `content` is only its beginning, as text, or null if it is binary.
 */
export type ErrorResponse = {
  status: number
  headers: { [name: string]: string }
  content: Json
  truncated?: true
}

/** Members of an error besides those of RFC 7807 (§3.2 "Extension Members"). */
interface ErrorExtensions {
  /** A stable word for the cause, such as `outcome_unknown` or the code of a problem of the platform. */
  readonly code?: string
  readonly response?: ErrorResponse
}

/** A serialised error. `instance` is the JSON pointer of the task that faulted. */
export type ErrorObject = {
  type: string
  status: number
  title: string
  detail: string
  instance: string
  code?: string
  response?: ErrorResponse
}

const BASE = 'https://serverlessworkflow.io/spec/1.0.0/errors/'

/** The standard error types, by name. */
export const ERRORS = {
  configuration: { type: `${BASE}configuration`, status: 400, title: 'Configuration error' },
  validation: { type: `${BASE}validation`, status: 400, title: 'Validation error' },
  expression: { type: `${BASE}expression`, status: 400, title: 'Expression error' },
  authentication: { type: `${BASE}authentication`, status: 401, title: 'Authentication error' },
  authorization: { type: `${BASE}authorization`, status: 403, title: 'Authorization error' },
  timeout: { type: `${BASE}timeout`, status: 408, title: 'Timeout error' },
  communication: { type: `${BASE}communication`, status: 500, title: 'Communication error' },
  runtime: { type: `${BASE}runtime`, status: 500, title: 'Runtime error' },
} as const satisfies Record<string, ErrorKind>

/** The error of an approval with `onReject: fault`. An extension of ours. */
export const REJECTED: ErrorKind = {
  type: 'https://tenon.dev/errors/rejected',
  status: 403,
  title: 'Rejected',
}

/** The code of an error: a request that is not safe may have arrived, and its answer is lost. */
export const OUTCOME_UNKNOWN = 'outcome_unknown'

/** URIs of the standard types, before and after OWS moved to its new domain. */
const STANDARD =
  /^https:\/\/(?:serverlessworkflow\.io|open-workflow-specification\.org)\/(?:spec\/1\.0\.0\/errors|dsl\/errors\/types)\/([a-z]+)$/

/** The kind of a standard type, or of a rejection, by its short name, such as `timeout`, or any of its URIs. */
export function standardError(type: string): ErrorKind | undefined {
  if (type === 'rejected' || type === REJECTED.type) return REJECTED
  const name = STANDARD.exec(type)?.[1] ?? type
  return Object.hasOwn(ERRORS, name) ? ERRORS[name as keyof typeof ERRORS] : undefined
}

/** The short names of error types that definitions may use instead of URIs. */
export const SHORT_TYPES: readonly string[] = [...Object.keys(ERRORS), 'rejected']

/** A single word, which is a short name and no URI. */
export const SHORT_TYPE = '^[A-Za-z0-9_-]+$'

export function isShortType(type: string): boolean {
  return new RegExp(SHORT_TYPE).test(type)
}

/** Errors are stored with every step, so their texts are bounded, and what cannot be stored is replaced: they stay what they are. */
const TEXT_BYTES_MAX = 4_096

const stored = (text: string): string => clip(storableText(text), TEXT_BYTES_MAX)

/**
 * The only error that faults a flow; the interpreter rethrows anything else.
 */
export class FlowError extends Error {
  readonly type: string
  readonly status: number
  readonly title: string
  /** JSON pointer of the task; empty until the interpreter sets it. */
  readonly instance: string
  readonly code?: string
  readonly response?: ErrorResponse

  constructor(
    { type, status, title, code, response }: ErrorKind & ErrorExtensions,
    detail: string,
    instance = '',
  ) {
    super(stored(detail))
    this.name = 'FlowError'
    this.type = stored(type)
    this.status = status
    this.title = stored(title)
    this.instance = stored(instance)
    if (code !== undefined) this.code = stored(code)
    if (response !== undefined) this.response = response
  }

  /** Restores a serialised error. */
  static from(error: ErrorObject): FlowError {
    return new FlowError(error, error.detail, error.instance)
  }

  /** The same error with the task that faulted; an `instance` that is already set stays. */
  at(instance: string): FlowError {
    return this.instance === '' ? new FlowError(this, this.message, instance) : this
  }

  toObject(): ErrorObject {
    const { type, status, title, message, instance, code, response } = this
    const extensions = { ...(code !== undefined && { code }), ...(response !== undefined && { response }) }
    return { type, status, title, detail: message, instance, ...extensions }
  }
}

/** A FlowError that no `try` catches: the execution as a whole has exceeded a limit. */
export class FinalError extends FlowError {}
