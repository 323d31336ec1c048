/** The row of a problem in the catalogue: status, title, and the next step of its caller. */

export interface ProblemRow {
  readonly status: number
  readonly title: string
  /** The next step for callers of every role; the hint of problems without their own. */
  readonly help: string
  /** One more sentence, which users and visitors of an application do not get: what an admin or an operator does. */
  readonly adminHint?: string
  /** A registered problem type (RFC 9457 §4). Default: the page of this code. */
  readonly type?: string
  /** Seconds for `Retry-After`; requests with such a code may be retried unchanged. */
  readonly retryAfterS?: number
  /** Code of a tenant has run, or may have, so the platform never retries. */
  readonly final?: true
}

export const row = (
  status: number,
  title: string,
  help: string,
  more: Omit<ProblemRow, 'status' | 'title' | 'help'> = {},
): ProblemRow => ({ status, title, help, ...more })
