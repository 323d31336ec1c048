/** The only error thrown on purpose; its code is one of the catalogue. */

import { PROBLEMS, type ProblemCode, type ProblemRow } from './problem-catalogue.ts'

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
  readonly hint?: string
  readonly errors?: readonly InputError[]
  /** Extension members (RFC 9457 §3.2). */
  readonly members?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  /** Logged, never sent to the client. */
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

  get row(): ProblemRow {
    return PROBLEMS[this.code]
  }

  get status(): number {
    return this.row.status
  }

  /** True if a retry would fail again, as for errors of the client. */
  get isFinal(): boolean {
    return this.row.final ?? (this.status < 500 && this.status !== 429)
  }
}

/** The same problem for a missing thing and for one that the caller may not know of. */
export function notFound(what: string): Problem {
  const hint = FINDING[what]
  return new Problem('not_found', {
    detail: `There is no such ${what}.`,
    ...(hint !== undefined && { hint }),
  })
}

/** The next step for nouns that callers name by more than an id, or before they exist. */
const FINDING: Readonly<Record<string, string>> = {
  document:
    'Check the collection and the id. A document that a rule hides from the caller is not found either.',
  execution: 'List executions: `npx tenon flow list`.',
  flow: 'Publish it, or list flows: `npx tenon flow definitions`.',
  'flow alias': 'List aliases: `npx tenon flow alias list <flow>`.',
  'flow version': 'List versions: `npx tenon flow versions <flow>`.',
  function: 'List functions: `npx tenon fn list`. An operator names a function by its id.',
  'function version': 'List versions: `npx tenon fn versions <function>`.',
  'MCP server': 'List servers: `npx tenon mcp list`.',
  schema: 'List declared collections with their ids: `GET /v1/schemas`.',
  secret: 'List secrets: `npx tenon secret list`.',
  tool: 'List the tools of a server: `npx tenon mcp inspect <server>`.',
}
