/** The one thing thrown on purpose, and the catalogue of all of them: code → status, title, help. */

import { ACCESS } from './problems/access.ts'
import { COLLECTIONS } from './problems/collections.ts'
import { OBJECTS } from './problems/objects.ts'
import { REQUESTS } from './problems/requests.ts'
import type { Row } from './problems/row.ts'
import { WORK } from './problems/work.ts'

/** Statuses follow what the reader will do: 404 wherever existence is not the caller's to know (decisions §3). */
export const PROBLEMS = { ...REQUESTS, ...ACCESS, ...COLLECTIONS, ...OBJECTS, ...WORK } as const

export type ProblemCode = keyof typeof PROBLEMS

export function isProblemCode(text: unknown): text is ProblemCode {
  return typeof text === 'string' && Object.hasOwn(PROBLEMS, text)
}

/** One fault of an input; `pointer` is an RFC 6901 pointer into it. */
export interface InputError {
  readonly in: 'body' | 'path' | 'query' | 'header'
  readonly name: string
  readonly pointer: string
  readonly detail: string
  /** The keyword of the collection's schema that says so. */
  readonly keyword?: string
}

interface ProblemOptions {
  /** One sentence about this case. Goes to the client: no SQL, no stack, nothing of another tenant. */
  readonly detail?: string
  readonly hint?: string
  readonly errors?: readonly InputError[]
  /** Extension members (RFC 9457 §3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  /** Goes to the log, never to the wire. */
  readonly cause?: unknown
}

export class Problem extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly errors: readonly InputError[]
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    super(options.detail ?? PROBLEMS[code].title, { cause: options.cause })
    this.name = 'Problem'
    this.code = code
    this.detail = options.detail
    this.hint = options.hint
    this.errors = options.errors ?? []
    this.members = options.members ?? {}
    this.headers = options.headers ?? {}
  }

  /** The same problem with further extension members. */
  with(members: Readonly<Record<string, unknown>>): Problem {
    const { detail, hint, errors, headers, cause } = this
    return new Problem(this.code, {
      ...(detail !== undefined && { detail }),
      ...(hint !== undefined && { hint }),
      ...{ errors, headers, cause },
      members: { ...this.members, ...members },
    })
  }

  get row(): Row {
    return PROBLEMS[this.code]
  }

  get status(): number {
    return this.row.status
  }

  /** Whether the same would be so again: a client's mistake stays one however often it is tried. */
  get isFinal(): boolean {
    return this.row.final ?? (this.status < 500 && this.status !== 429)
  }
}

/** What is not there, or not the caller's to know: one body for both. */
export function notFound(what: string): Problem {
  return new Problem('not_found', { detail: `There is no such ${what}.` })
}
