/** Ends an idempotency claim in the transaction of its effect. */

import { Problem } from '../core/problem.ts'
import type { Sql } from '../infra/postgres/sql.ts'

/**
 * Keeps the output of an effect in the transaction of the effect, so that either both are there or none. Each statement
 * returns a row only while the claim is held: without one, the transaction has to be rolled back.
 */
export interface Completion {
  /** The result of each part that an earlier attempt has done, by its index. */
  readonly parts: Readonly<Record<number, unknown>>
  /** Ends the claim. @param output from which the reply is built again */
  keep(output: unknown): Sql
  keepPart(index: number, result: unknown): Sql
}

/** @throws Problem `idempotency_in_flight` if another attempt has taken over the claim, unless `rows` has one of a {@link Completion} */
export function requireHeld(rows: readonly object[] | undefined): void {
  if (rows?.length === 1) return
  throw new Problem('idempotency_in_flight', {
    detail: 'Another attempt has taken over, so this one changed nothing.',
  })
}
