/** Sessions of accounts and users: recorded at each sign-in, listed and ended by the person or by an admin. */

import { hash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { Id, Time } from '../../../access/operation-builders.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { randomIds, typeId } from '../../../core/ids.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { Account } from '../accounts/accounts-store.ts'
import { ownerIds } from '../factors/factor-owner.ts'
import { ISSUER_LIMITS } from '../limits.ts'

export const Session = component(
  'Session',
  Type.Object({
    id: Id('ses'),
    page: Type.Union([Type.String(), Type.Null()], {
      description:
        'Path of the page of the platform that is open. `null`: a sign-in at the issuer, whose clients have tokens.',
    }),
    device: Type.String({ description: 'Browser and system, as the browser names them.' }),
    address: Type.String({ description: 'Address from which the person has signed in.' }),
    created_at: Time,
    last_used_at: Time,
    expires_at: Time,
  }),
  {
    id: EXAMPLE_ID.session,
    page: null,
    device: 'Firefox on Linux',
    address: '192.0.2.7',
    created_at: EXAMPLE_TIME.created,
    last_used_at: EXAMPLE_TIME.updated,
    expires_at: EXAMPLE_TIME.later,
  },
)
export type OpenSession = Static<typeof Session>

/** The browser behind a sign-in. */
export interface Device {
  readonly address: string
  /** `User-Agent`. */
  readonly agent: string | undefined
}

const COLUMNS = sql`id, page, agent as device, address, created_at, last_used_at, expires_at`

/** Statements for any scope that may read or delete the rows. @param subject id of the account or user */
export const selectSessions = (subject: Sql): Sql => sql`
  select ${COLUMNS} from sessions where subject_id = ${subject} and expires_at > now() order by last_used_at desc, id`
export const deleteSession = (subject: Sql, id: string): Sql =>
  sql`delete from sessions where subject_id = ${subject} and id = ${id} returning id`

/** The id of a person's session in a browser: one browser may sign in several, one after another. @param uid of the provider's session */
export function sessionIdOf(uid: string, subjectId: string): string {
  const bytes = hash('sha256', `session:${uid}:${subjectId}`)
  const uuid = [
    bytes.slice(0, 8),
    bytes.slice(8, 12),
    bytes.slice(12, 16),
    bytes.slice(16, 20),
    bytes.slice(20, 32),
  ]
  return typeId('ses', uuid.join('-'))
}

/** Deletes a few expired rows with each new one. */
const FORGET_EXPIRED = sql`
  delete from sessions where id = any(array(
    select id from sessions where expires_at <= now() order by expires_at limit 20 for update skip locked))`

const AGENT_CHARS = 300

export class Sessions {
  readonly #system: SystemScope

  constructor(database: Database) {
    this.#system = new SystemScope('issuer', database)
  }

  /** Records a sign-in at the issuer, or another authorization in its browser. @param uid of the provider's session */
  async record(uid: string, person: Account, device: Device): Promise<void> {
    const seconds = ISSUER_LIMITS.signInSeconds + ISSUER_LIMITS.refreshSeconds
    await this.#insert(sessionIdOf(uid, person.id), person, device, { page: null, seconds })
  }

  /** Records a sign-in at a page. @returns the id */
  async open(
    person: Account,
    device: Device,
    at: { readonly page: string; readonly seconds: number },
  ): Promise<string> {
    const id = typeId('ses', randomIds.uuid())
    await this.#insert(id, person, device, at)
    return id
  }

  async #insert(
    id: string,
    person: Account,
    { address, agent = '' }: Device,
    { page, seconds }: { readonly page: string | null; readonly seconds: number },
  ): Promise<void> {
    await this.#system.batch(
      sql`insert into sessions (id, user_id, account_id, tenant_id, workspace_id, page, agent, address, expires_at)
        values (${id}, ${ownerIds(person)}, ${page}, ${visible(agent)}, ${address}, now() + make_interval(secs => ${seconds}::integer))
        on conflict (id) do update set last_used_at = now(), agent = excluded.agent, address = excluded.address,
          expires_at = excluded.expires_at`,
      FORGET_EXPIRED,
    )
  }

  /** Notes that a client has got tokens. */
  async touch(id: string): Promise<void> {
    await this.#system.rows(
      sql`update sessions set last_used_at = now() where id = ${id} and last_used_at < now() - interval '1 minute'`,
    )
  }

  async isOpen(id: string): Promise<boolean> {
    const row = await this.#system.row(sql`select id from sessions where id = ${id} and expires_at > now()`)
    return row !== undefined
  }

  list(subjectId: string): Promise<OpenSession[]> {
    return this.#system.rows<OpenSession>(selectSessions(sql`${subjectId}`))
  }

  /** Ends a session, its refresh tokens at once and its access tokens within 5 s. @returns false if the person has no such session */
  async end(subjectId: string, id: string): Promise<boolean> {
    return (await this.#system.row(deleteSession(sql`${subjectId}`, id))) !== undefined
  }
}

/** Without characters that a page cannot show, and not longer than a browser's own. */
const visible = (agent: string) => agent.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, AGENT_CHARS)
