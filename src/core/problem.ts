/** The only error thrown on purpose; its code is one of the catalogue. */

import { PROBLEMS, type ProblemCode } from './problem-catalogue.ts'
import type { ProblemRow } from './problem-row.ts'

/** An error in an input; `pointer` is a JSON pointer into it (RFC 6901). */
export interface InputError {
  readonly in: 'body' | 'path' | 'query' | 'header'
  readonly name: string
  readonly pointer: string
  readonly detail: string
  /** The violated keyword of the collection's schema. */
  readonly keyword?: string
}

interface ProblemOptions {
  /** One sentence about this case. Goes to the client: no SQL, no stack, nothing of another tenant. */
  readonly detail?: string
  /** The next step of the caller, in place of the catalogue's. Callers of every role read it. */
  readonly hint?: string
  /** The next step of admins, operators and those who program the application; users and visitors of it do not read it. */
  readonly adminHint?: string
  readonly errors?: readonly InputError[]
  /** Extension members (RFC 9457 §3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  /** Logged, never sent to the client. */
  readonly cause?: unknown
}

/**
 * An error that callers may see (RFC 9457). The code decides status, title and help; the detail is about this case.
 * @example
 * ```ts
 * throw new Problem('state_conflict', {
 *   detail: 'The note is locked until 12:00.',
 *   hint: 'Unlock it, or wait.',
 *   members: { locked_until: '2026-01-01T12:00:00.000Z' },
 * })
 * ```
 */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly adminHint: string | undefined
  readonly errors: readonly InputError[]
  readonly members: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ProblemCode, options: ProblemOptions = {}) {
    super(options.detail ?? PROBLEMS[code].title, { cause: options.cause })
    this.name = 'Problem'
    this.code = code
    this.detail = options.detail
    this.hint = options.hint
    this.adminHint = options.adminHint
    this.errors = options.errors ?? []
    this.members = options.members ?? {}
    this.headers = options.headers ?? {}
  }

  /** The same problem with these parts in place of its own. */
  changed(parts: ProblemOptions): Problem {
    const { detail, hint, adminHint, errors, members, headers, cause } = this
    return new Problem(this.code, {
      ...(detail !== undefined && { detail }),
      ...(hint !== undefined && { hint }),
      ...(adminHint !== undefined && { adminHint }),
      ...{ errors, members, headers, cause },
      ...parts,
    })
  }

  /** The same problem with further extension members. */
  with(members: Readonly<Record<string, unknown>>): Problem {
    return this.changed({ members: { ...this.members, ...members } })
  }

  get row(): ProblemRow {
    return PROBLEMS[this.code]
  }

  /** The hint for a caller of whom nothing is known, and for anon keys and users. */
  get publicHint(): string {
    return this.hint ?? this.row.help
  }

  /** The hint for callers with another role: also what an admin does. */
  get fullHint(): string {
    const { hint, adminHint, row } = this
    const isOwn = hint !== undefined || adminHint !== undefined
    const steps = isOwn ? [hint, adminHint] : [row.help, row.adminHint]
    return steps.filter((step) => step !== undefined).join(' ')
  }

  get status(): number {
    return this.row.status
  }

  /** True if a retry would fail again, as for errors of the client. */
  get isFinal(): boolean {
    return this.row.final ?? (this.status < 500 && this.status !== 429)
  }
}

/**
 * The same problem for a missing thing and for one that the caller may not know of.
 * @param what the noun, such as `flow version`
 * @example
 * ```ts
 * throw notFound('flow version') // 404: 'There is no such flow version.'
 * ```
 */
export function notFound(what: string): Problem {
  return new Problem('not_found', { detail: `There is no such ${what}.`, ...NOT_FOUND_HINTS[what] })
}

/** The next step for nouns that callers name by more than an id, or before they exist. */
const NOT_FOUND_HINTS: Readonly<Record<string, Pick<ProblemOptions, 'hint' | 'adminHint'>>> = {
  document: {
    hint: 'Check the collection and the id. Documents that access rules hide from the caller are not found either.',
  },
  execution: { adminHint: 'List executions: `npx tenon flow list`.' },
  flow: { adminHint: 'Publish it, or list flows: `npx tenon flow definitions`.' },
  'flow alias': { adminHint: 'List aliases: `npx tenon flow alias list <flow>`.' },
  'flow version': { adminHint: 'List versions: `npx tenon flow versions <flow>`.' },
  function: { adminHint: 'List functions: `npx tenon fn list`. An operator names a function by its id.' },
  'function version': { adminHint: 'List versions: `npx tenon fn versions <function>`.' },
  'MCP server': { adminHint: 'List servers: `npx tenon mcp list`.' },
  schema: { adminHint: 'List declared collections with their ids: `GET /v1/schemas`.' },
  secret: { adminHint: 'List secrets: `npx tenon secret list`.' },
  tool: { adminHint: 'List the tools of a server: `npx tenon mcp inspect <server>`.' },
}
