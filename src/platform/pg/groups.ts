/** Group commit: merges concurrent small transactions of the same role and workspace, and single-row statements of one kind into one. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Row } from './batch.ts'
import type { Company, Mandate } from './database.ts'
import { failedStatement } from './errors.ts'
import type { Sql } from './sql.ts'

/** @param lockMs for how long it waits for a lock of somebody else; as long as a statement may take where absent */
type Run = (mandate: Mandate, statements: readonly Sql[], lockMs?: number) => Promise<Row[][]>

interface Member {
  readonly statements: readonly Sql[]
  readonly resolve: (rows: Row[][]) => void
  readonly reject: (error: unknown) => void
}

/** Those of one mandate and company. */
interface Group {
  readonly mandate: Mandate
  underWay: number
  waiting: Member[]
  /** Sends those who wait off, whatever holds up the ones before them. */
  timer: NodeJS.Timeout | undefined
}

const { membersMax, waitMs, lockMs, apartMs } = LIMITS.groups

export class Groups {
  readonly #run: Run
  readonly #groups = new Map<string, Group>()
  /** Those that go by themselves for a while, after one of a group failed: more like it may come. */
  readonly #apart = new LRUCache<string, true>({ max: LIMITS.keyCacheEntriesMax, ttl: apartMs })

  constructor(run: Run) {
    this.#run = run
  }

  /**
   * Runs the statements as one transaction, perhaps together with those of others who wait for the same turn. What fails
   * together is done again one by one, so that each fails by itself alone. Nobody waits longer than `LIMITS.groups.waitMs`.
   * @throws as running them by themselves does
   */
  join(mandate: Mandate, statements: readonly Sql[], company: Company): Promise<Row[][]> {
    const key = keyOf(mandate, company)
    const group = this.#groups.get(key) ?? { mandate, underWay: 0, waiting: [], timer: undefined }
    this.#groups.set(key, group)
    if (group.underWay > 0 && !this.#apart.has(key)) return this.#wait(key, group, statements)
    group.underWay += 1
    return this.#run(mandate, statements).finally(() => this.#ended(key, group))
  }

  #wait(key: string, group: Group, statements: readonly Sql[]): Promise<Row[][]> {
    return new Promise((resolve, reject) => {
      group.waiting.push({ statements, resolve, reject })
      group.timer ??= setTimeout(() => this.#send(key, group), waitMs)
      if (group.waiting.length >= membersMax) this.#send(key, group)
    })
  }

  #ended(key: string, group: Group): void {
    group.underWay -= 1
    if (group.waiting.length > 0) this.#send(key, group)
    else if (group.underWay === 0) this.#groups.delete(key)
  }

  /** Never rejects: its members do. */
  #send(key: string, group: Group): void {
    clearTimeout(group.timer)
    group.timer = undefined
    const members = group.waiting
    group.waiting = []
    group.underWay += 1
    void this.#together(key, group.mandate, members).finally(() => this.#ended(key, group))
  }

  async #together(key: string, mandate: Mandate, members: readonly Member[]): Promise<void> {
    try {
      const said = jointly(members.flatMap((member) => member.statements))
      const alone = members.length === 1
      const rows = said.deal(await this.#run(mandate, said.statements, alone ? undefined : lockMs))
      let at = 0
      for (const { statements: own, resolve } of members) {
        resolve(rows.slice(at, at + own.length))
        at += own.length
      }
    } catch (error) {
      if (members.length === 1 || !isOfOne(error)) {
        for (const { reject } of members) reject(error)
        return
      }
      this.#apart.set(key, true)
      await Promise.all(
        members.map(({ statements, resolve, reject }) =>
          this.#run(mandate, statements).then(resolve, reject),
        ),
      )
    }
  }
}

/** Whether it is the fault of one statement, and not of the server or the way to it; then nothing of the others has happened. */
function isOfOne(error: unknown): boolean {
  if (!(error instanceof Problem)) return failedStatement(error) !== undefined
  if (error.code === 'dependency_unavailable') return false
  return error.code === 'output_too_large' || failedStatement(error) !== undefined
}

const keyOf = ({ mask, tenant, workspace, statementTimeoutMs, hops }: Mandate, company: Company): string =>
  `${company} ${mask} ${tenant} ${workspace} ${statementTimeoutMs} ${hops ?? ''}`

/** What is to be run in place of some statements. */
export interface Said {
  readonly statements: readonly Sql[]
  /** @param rows of those @returns the rows of each statement that they stand for */
  readonly deal: (rows: readonly Row[][]) => Row[][]
}

/** Two statements about one thing are never one: the second is to see what the first has done. */
export function jointly(all: readonly Sql[]): Said {
  const bunches: Sql[][] = []
  const places = all.map((statement) => {
    const found = bunches.findIndex((bunch) => belongs(statement, bunch))
    if (found >= 0) bunches[found]?.push(statement)
    const at = found >= 0 ? found : bunches.push([statement]) - 1
    return { at, key: statement.joint?.key }
  })
  const isOne = (at: number) => bunches[at]?.length === 1
  return {
    statements: bunches.map(oneOf),
    deal: (rows) =>
      places.map(({ at, key }) => {
        const found = rows[at] ?? []
        return isOne(at) ? found : found.filter((row) => row['given_id'] === key)
      }),
  }
}

const belongs = ({ joint }: Sql, bunch: readonly Sql[]): boolean =>
  joint !== undefined &&
  bunch[0]?.joint?.kind === joint.kind &&
  !bunch.some((other) => other.joint?.key === joint.key)

function oneOf(bunch: readonly Sql[]): Sql {
  const [first] = bunch
  if (first === undefined) throw new TypeError('a bunch has a statement')
  if (bunch.length === 1 || first.joint === undefined) return first
  return first.joint.kind.join(bunch.flatMap(({ joint }) => (joint === undefined ? [] : [joint.item])))
}
