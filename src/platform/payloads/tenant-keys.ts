/** The data keys of tenants: made when a tenant needs the first one, followed by a new one now and then. */

import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, type TenantId } from '../../core/tenant.ts'
import type { SessionContext, StatementExecutor } from '../pg/database.ts'
import { violated } from '../pg/errors.ts'
import { type Sql, sql } from '../pg/sql.ts'
import type { Secrets } from '../secrets.ts'

/** `<tenant>.<number>` stands beside everything that is encrypted with it. */
export interface DataKey {
  readonly id: string
  /** 32 bytes. */
  readonly secret: Buffer
}

/** All keys of a tenant, as they were read. */
interface Ring {
  readonly keys: ReadonlyMap<string, DataKey>
  /** Undefined where the keys were destroyed, and so nothing is encrypted for the tenant any more. */
  readonly newest: DataKey | undefined
}

interface KeyRow {
  readonly number: number
  readonly sealed: Buffer | null
  readonly is_old: boolean
}

const { keyDays, keyCacheMs, tenantsCachedMax } = LIMITS.payloads

export class TenantKeys {
  readonly #database: StatementExecutor
  readonly #secrets: Secrets
  readonly #rings = new LRUCache<TenantId, Ring>({
    max: tenantsCachedMax,
    ttl: keyCacheMs,
    noDeleteOnFetchRejection: true,
    fetchMethod: async (tenantId) =>
      this.#opened(tenantId, await this.#renewed(tenantId, await this.#rows(tenantId))),
  })

  constructor(database: StatementExecutor, secrets: Secrets) {
    this.#database = database
    this.#secrets = secrets
  }

  /**
   * The key that encrypts.
   * @throws Problem `payload_unreadable` where the tenant's keys were destroyed, `dependency_unavailable`
   */
  async newest(tenantId: TenantId): Promise<DataKey> {
    const { newest } = await this.#ring(tenantId)
    return newest ?? gone()
  }

  /**
   * The key that something was encrypted with.
   * @throws Problem `payload_unreadable` where it was destroyed or never was, `dependency_unavailable`
   */
  async of(id: string): Promise<DataKey> {
    const tenantId = tenantOf(id)
    const known = (await this.#ring(tenantId)).keys.get(id)
    // Another process may have made it since.
    return known ?? (await this.#ring(tenantId, true)).keys.get(id) ?? gone()
  }

  /** As it was a moment ago; while the database is away, as it was last. */
  async #ring(tenantId: TenantId, isAnew = false): Promise<Ring> {
    const known = this.#rings.peek(tenantId, { allowStale: true })
    return this.#rings.forceFetch(tenantId, { forceRefresh: isAnew }).catch((error: unknown) => {
      if (isAnew || known === undefined) throw error
      return known
    })
  }

  /** The rows with a newer one, where there is none yet or the newest has done its time. */
  async #renewed(tenantId: TenantId, rows: readonly KeyRow[]): Promise<readonly KeyRow[]> {
    const last = rows.at(-1)
    if (last !== undefined && (last.sealed === null || !last.is_old)) return rows
    const number = (last?.number ?? 0) + 1
    const sealed = this.#secrets.seal(purposeOf(`${tenantId}.${number}`), randomBytes(32))
    // Whoever comes at the same time makes one under the same number; one of them is kept.
    await this.#batch(
      tenantId,
      sql`insert into payload_keys (number, sealed) values (${number}, ${sealed}) on conflict do nothing`,
    ).catch((error: unknown) => {
      throw violated(error) === undefined ? error : unreadable('There is no such tenant any more.')
    })
    return this.#rows(tenantId)
  }

  #opened(tenantId: TenantId, rows: readonly KeyRow[]): Ring {
    const keys = rows.flatMap(({ number, sealed }) => {
      const id = `${tenantId}.${number}`
      return sealed === null ? [] : [{ id, secret: this.#secrets.open(purposeOf(id), sealed) }]
    })
    const newest = rows.at(-1)?.sealed === null ? undefined : keys.at(-1)
    return { keys: new Map(keys.map((key) => [key.id, key])), newest }
  }

  #rows(tenantId: TenantId): Promise<readonly KeyRow[]> {
    return this.#batch(
      tenantId,
      sql`select number, sealed, created_at < now() - make_interval(days => ${keyDays}) as is_old
        from payload_keys order by number`,
    )
  }

  async #batch(tenant: TenantId, statement: Sql): Promise<readonly KeyRow[]> {
    const context: SessionContext = {
      role: 'tenon_keyring',
      tenant,
      workspace: '',
      statementTimeoutMs: 5_000,
    }
    const [rows = []] = await this.#database.batch(context, [statement])
    return rows as unknown as KeyRow[]
  }
}

/** Whose key it is. @throws Problem `payload_unreadable` for what is no id of a key */
export function tenantOf(keyId: string): TenantId {
  const [tenantId, number, ...rest] = keyId.split('.')
  if (!isTenantId(tenantId) || !/^[1-9]\d{0,8}$/.test(number ?? '') || rest.length > 0) return gone()
  return tenantId
}

const purposeOf = (id: string) => `payload-key:${id}`

function gone(): never {
  throw unreadable('The key was destroyed that this was encrypted with.')
}

function unreadable(detail: string): Problem {
  return new Problem('payload_unreadable', { detail })
}
