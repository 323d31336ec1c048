/** Checks of what the database knows of the installation: its schema, the master key, the time. */

import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../../infra/config.ts'
import { parseMasterKeys } from '../../infra/crypto/master-keys.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { StatementExecutor } from '../../infra/postgres/database.ts'
import {
  type Installation,
  keyChecksOf,
  readInstallation,
  storeKeyCheck,
  WRONG_KEY,
} from '../../infra/postgres/installation.ts'
import { compareSchema, schemaOfBuild } from '../../infra/postgres/schema-files.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import { unavailable } from '../../infra/unavailable.ts'
import { type Part, PartFailure } from '../health.ts'
import type { StartCheck, Verdict } from './start-check.ts'

type Required = 'schema' | 'master_key'

/** The word of each problem in `/readyz`. */
const KINDS = { schema_outdated: 'outdated', schema_newer: 'newer', master_key_wrong: 'wrong' } as const

/** Processes read the tables of an installation no more often. */
const READ_EVERY_MS = 500

/**
 * The database of an installation, as this process fits it. Until schema and master key are known to be right, an API that serves
 * refuses all requests: documents of another schema answered `overloaded`, and a wrong key would encrypt new rows.
 */
export class InstallationChecks {
  readonly #database: StatementExecutor
  readonly #keyChecks: readonly string[]
  readonly #keyIds: readonly string[]
  readonly #read = new TtlCache<Installation>({ max: 1, ttl: READ_EVERY_MS })
  readonly #refusals = new Map<Required, Problem>()
  readonly #wasRight = new Set<Required>()
  #isServing = false

  constructor(config: Pick<Config, 'TENON_MASTER_KEY'>, database: StatementExecutor) {
    this.#database = database
    this.#keyChecks = keyChecksOf(config.TENON_MASTER_KEY)
    this.#keyIds = parseMasterKeys(config.TENON_MASTER_KEY).map(({ id }) => id)
  }

  /** Why requests are refused; undefined if schema and key are right, or were not checked. */
  get refusal(): Problem | undefined {
    const [first] = this.#refusals.values()
    return first
  }

  /**
   * For a process that is about to serve: it stores the check value of its key if the database has none, and refuses requests until the
   * checks have said that schema and key are right. Others, such as `tenon doctor`, only look.
   */
  start(): void {
    this.#isServing = true
    for (const name of ['schema', 'master_key'] as const)
      this.#refusals.set(name, unavailable('postgres', undefined))
  }

  /** Without them no process is ready. */
  readonly required: readonly StartCheck[] = [
    { name: 'schema', stops: ['worker'], isAwaited: true, run: () => this.#schema() },
    { name: 'master_key', stops: ['worker'], isAwaited: true, run: () => this.#masterKey() },
  ]

  /** The same for the readiness of the process. */
  readonly parts: readonly Part[] = this.required.map(({ name, run }) => ({
    ...{ name, required: true },
    ping: async () => {
      const { is, detail, kind } = await this.#orAsBefore(name as Required, run())
      if (is === 'wrong') throw new PartFailure(detail, kind)
    },
  }))

  readonly clock: StartCheck = { name: 'clock', stops: [], run: () => this.#clock() }

  #installation(): Promise<Installation> {
    return this.#read.load('installation', () => readInstallation(this.#database))
  }

  async #schema(): Promise<Verdict> {
    const { applied } = await this.#installation()
    const compared = compareSchema(applied, await schemaOfBuild())
    if (compared.state === 'same')
      return this.#right('schema', `${Object.keys(applied).length} files, those of this build`)
    if (compared.state === 'expanded') return this.#right('schema', compared.detail)
    return this.#wrong(
      'schema',
      compared.state === 'newer' ? 'schema_newer' : 'schema_outdated',
      compared.detail,
    )
  }

  async #masterKey(): Promise<Verdict> {
    const { keyCheck: known, replacedKeys } = await this.#withKeyCheck()
    if (known === undefined)
      return {
        is: 'warning',
        detail: 'The database knows no key yet: the first process that starts stores its own.',
      }
    const index = this.#keyChecks.indexOf(known)
    if (index === -1) return this.#wrong('master_key', 'master_key_wrong', WRONG_KEY)
    const right = this.#right(
      'master_key',
      index === 0 ? 'the key of this installation' : this.#replacing(index),
    )
    const [first = ''] = this.#keyIds
    return replacedKeys.includes(first) ? { is: 'warning', detail: this.#replaced(index) } : right
  }

  /** @param index of the key of the installation */
  #replacing(index: number): string {
    const [first, known] = [this.#keyIds[0], this.#keyIds[index]]
    return `New values are encrypted with the key ${first}, and others are with ${known}, until \`tenon master-key rotate\` has ended.`
  }

  #replaced(index: number): string {
    const [first, known] = [this.#keyIds[0], this.#keyIds[index]]
    return `This process encrypts with the key ${first}, which ${known} has replaced: put ${known} first in TENON_MASTER_KEY, and restart it.`
  }

  async #withKeyCheck(): Promise<Installation> {
    const installation = await this.#installation()
    const { keyCheck, applied } = installation
    const [own] = this.#keyChecks
    if (keyCheck !== undefined || !this.#isServing || Object.keys(applied).length === 0 || own === undefined)
      return installation
    await storeKeyCheck(this.#database, own)
    this.#read.drop('installation')
    return this.#installation()
  }

  async #clock(): Promise<Verdict> {
    const { serverMs, ownMs, uncertainMs } = (await this.#installation()).clock
    const aheadMs = ownMs - serverMs
    if (Math.abs(aheadMs) - uncertainMs <= INFRA_LIMITS.clockSkewMaxMs)
      return { is: 'good', detail: 'that of PostgreSQL' }
    const seconds = Math.round(Math.abs(aheadMs) / 1_000)
    const detail = `The clock of this machine is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} that of PostgreSQL: tokens and links are accepted too long or not at all. Synchronise both with NTP.`
    return { is: 'warning', detail }
  }

  /**
   * A verdict that was good stands while PostgreSQL does not answer: only a migration or a restore changes it, and a database that is busy
   * or away is the matter of another part.
   */
  async #orAsBefore(name: Required, asked: Promise<Verdict>): Promise<Verdict> {
    if (!this.#wasRight.has(name)) return asked
    const before: Verdict = { is: 'good', detail: 'as before' }
    return Promise.race([
      asked.catch(() => before),
      pause(INFRA_LIMITS.health.poolMs, before, { ref: false }),
    ])
  }

  #right(name: Required, detail: string): Verdict {
    this.#wasRight.add(name)
    this.#refusals.delete(name)
    return { is: 'good', detail }
  }

  #wrong(name: Required, code: keyof typeof KINDS, detail: string): Verdict {
    // Callers learn the code alone: which files differ is for the log and for `tenon doctor`.
    this.#wasRight.delete(name)
    this.#refusals.set(name, new Problem(code))
    return { is: 'wrong', detail, kind: KINDS[code] }
  }
}
