/** A row of the catalogue of problems. */

export interface Row {
  readonly status: number
  readonly title: string
  /** What the reader can do; stands in docs/reference/problems.md and, where nothing better is known, as hint. */
  readonly help: string
  /** Where a registered type (RFC 9457 §4) says what the code does; else a page of ours does. */
  readonly type?: string
  /** Seconds for `Retry-After`; a code that has it may be tried again unchanged. */
  readonly retryAfterS?: number
  /** Somebody's code has run, or may have: no part of the platform asks again by itself. */
  readonly final?: true
}
