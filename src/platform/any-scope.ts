/** What every scope can do; which scopes there are stands in scope.ts. */

import { type IdPrefix, typeId } from '../core/ids.ts'
import type { Actor } from '../core/policy.ts'
import type { Audit } from './audit/audit.ts'
import { type Lent, lend } from './lent.ts'
import type { Row } from './pg/batch.ts'
import type { Company } from './pg/mandate.ts'
import type { Sql } from './pg/sql.ts'

/**
 * Who acts, and statements under that actor's rights. What else a scope may do, each feature supplies as a function of the
 * scope: `objectsOf(scope)`, `runsOf(scope)`, `seal(scope, …)`.
 */
export abstract class Scope {
  readonly actor: Actor
  readonly #lent: Lent
  /** For doors that run operations inside a scope of their own. */
  readonly audit: Audit

  protected constructor(actor: Actor, lent: Lent) {
    this.actor = actor
    this.#lent = lent
    this.audit = lent.parts.audit
    lend(this, lent)
  }

  /** Statements as one transaction in one round trip; rows per statement. */
  batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#lent.parts.statements.batch(this.#lent.mandate, statements)
  }

  /** As {@link batch}, for statements that take a moment: those of others who have the same rights may go with them. */
  along(company: Company, ...statements: Sql[]): Promise<Row[][]> {
    return this.#lent.parts.statements.batch(this.#lent.mandate, statements, company)
  }

  /** The rows of one statement. */
  async rows<T extends object>(statement: Sql): Promise<T[]> {
    const [rows = []] = await this.batch(statement)
    return rows as T[]
  }

  /** The first row of one statement, if there is one. */
  async row<T extends object>(statement: Sql): Promise<T | undefined> {
    const [row] = await this.rows<T>(statement)
    return row
  }

  /** A new UUIDv7. In an activity, the same one at each attempt. */
  uuid(): string {
    return this.#lent.ids.uuid()
  }

  newId<P extends IdPrefix>(prefix: P): `${P}_${string}` {
    return typeId(prefix, this.uuid())
  }

  /** Puts an error of ours into the log where its caller is told of it in no detail. */
  report(error: unknown, what: string): void {
    this.#lent.parts.log.error({ err: error, subject: this.actor.subject }, what)
  }
}
