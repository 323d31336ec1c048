/** Ends an idempotency claim in the transaction of its effect, or finds an effect that no transaction ties to it. */

import { Problem } from '../core/problem.ts'
import type { Sql } from '../infra/postgres/sql.ts'

/**
 * Keeps the output of an effect in the transaction of the effect, so that either both are there or none. Each statement
 * returns a row only while the claim is held: without one, the transaction has to be rolled back.
 */
export interface Completion {
  /** Above 1 if an attempt before may have had its effect. */
  readonly attempt: number
  /** The result of each part that an earlier attempt has done, by its index. */
  readonly parts: Readonly<Record<number, unknown>>
  /** Ends the claim. @param output from which the reply is built again */
  keep(output: unknown): Sql
  keepPart(index: number, result: unknown): Sql
  /** For an effect in another store. @param index of the part; 0 if there is one */
  marked(index: number): MarkedEffect
}

/**
 * A change of a versioned document that shares no transaction with its claim: `begin`, then the change, which leaves the mark in the
 * document in the same step, then `keep`. A later attempt finds by the mark what was made and not kept.
 */
export interface MarkedEffect {
  /** The same at each attempt, and that of no other effect. */
  readonly mark: string
  /** The version that the last attempt was about to change; undefined if none was, so that none has changed anything. */
  readonly begunAt: number | undefined
  /**
   * Notes the version that is to be changed, which the change has to compare; 0 for a new document. Returns a row only while the
   * claim is held: without one, nothing may be changed.
   */
  begin(version: number): Sql
}

/** @throws Problem `idempotency_in_flight` if another attempt has taken over the claim, unless `rows` has one of a {@link Completion} */
export function requireHeld(rows: readonly object[] | undefined): void {
  if (rows?.length === 1) return
  throw new Problem('idempotency_in_flight', {
    detail: 'Another attempt has taken over, so this one changed nothing.',
  })
}
