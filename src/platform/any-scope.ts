/** What every scope can do; which scopes there are stands in scope.ts. */

import { type IdPrefix, type IdSource, typeId } from '../core/ids.ts'
import type { Actor } from '../core/policy.ts'
import type { TenantRef } from '../core/tenant.ts'
import type { Audit } from './audit/audit.ts'
import { Durable } from './durable.ts'
import type { Parts } from './parts.ts'
import type { Row } from './pg/batch.ts'
import type { Company, Mandate } from './pg/mandate.ts'
import type { Sql } from './pg/sql.ts'
import type { Ran, ThreadTask } from './thread-pool.ts'

/** Runs statements under its own mask, makes ids, drives its own workflows. */
export abstract class Scope {
  readonly actor: Actor
  protected readonly mandate: Mandate
  protected readonly parts: Parts
  protected readonly ids: IdSource
  /** For doors that run operations inside a scope of their own. */
  readonly audit: Audit

  protected constructor(actor: Actor, mandate: Mandate, parts: Parts, ids: IdSource) {
    this.actor = actor
    this.mandate = mandate
    this.parts = parts
    this.ids = ids
    this.audit = parts.audit
  }

  /** Statements as one transaction in one round trip; rows per statement. */
  batch(...statements: Sql[]): Promise<Row[][]> {
    return this.parts.statements.batch(this.mandate, statements)
  }

  /** As {@link batch}, for statements that take a moment: those of others who have the same rights may go with them. */
  along(company: Company, ...statements: Sql[]): Promise<Row[][]> {
    return this.parts.statements.batch(this.mandate, statements, company)
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
    return this.ids.uuid()
  }

  newId<P extends IdPrefix>(prefix: P): `${P}_${string}` {
    return typeId(prefix, this.uuid())
  }

  /** Puts an error of ours into the log where its caller is told of it in no detail. */
  report(error: unknown, what: string): void {
    this.parts.log.error({ err: error, subject: this.actor.subject }, what)
  }

  /** Runs a task in a worker thread, in the share of the scope's tenant. @throws Problem `overloaded` */
  inThread<T>(task: ThreadTask): Promise<Ran<T>> {
    return this.parts.threads.run(this.mandate.tenant, task)
  }

  protected durable(ref: TenantRef): Durable {
    return new Durable(ref, this.parts.temporal)
  }
}
