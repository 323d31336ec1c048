/** Chooses what a restore to a time needs of a repository. */

import {
  type Backup,
  type Chain,
  chainFor,
  listChains,
  momentId,
  momentTime,
  readBackup,
  readMoment,
  type States,
} from './manifests.ts'
import type { Repository } from './repository/repository.ts'

export interface RestorePlan {
  /** RFC 3339 with microseconds. */
  readonly to: string
  /** A full backup, and the incremental ones up to the one to restore. */
  readonly backups: readonly Backup[]
  readonly lastWal: string
  /** Of the last moment that is not later. */
  readonly states: States
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$/

/**
 * @param to RFC 3339 in UTC, or `latest`
 * @throws Error with the times that can be restored, if it is none of them
 */
export async function planRestore(repository: Repository, to: string): Promise<RestorePlan> {
  const chains = await listChains(repository)
  const time = to === 'latest' ? latestOf(chains) : fullTime(to)
  const chain = chainFor(chains, time)
  const wanted = momentId(time)
  const at = chain.moments.findIndex((id) => id >= wanted)
  const [needed, reached] = [chain.moments[at], chain.moments.findLast((id) => id <= wanted)]
  const [{ last_wal: lastWal }, { states }] = (await Promise.all(
    [needed, reached].map((id) => readMoment(repository, chain, id ?? chain.id)),
  )) as [Awaited<ReturnType<typeof readMoment>>, Awaited<ReturnType<typeof readMoment>>]
  return { to: time, backups: await ancestry(repository, chain.id), lastWal, states }
}

/** @throws Error that shows the form, if it is no time in UTC */
function fullTime(text: string): string {
  if (!TIME.test(text) || Number.isNaN(Date.parse(text)))
    throw new Error(`${text} is not a time. Write it in UTC, such as 2026-11-29T14:30:00Z, or "latest".`)
  const [seconds = '', fraction = ''] = text.slice(0, -1).split('.')
  return `${seconds}.${fraction.padEnd(6, '0')}Z`
}

function latestOf(chains: readonly Chain[]): string {
  const last = chains.at(-1)
  if (last === undefined) throw new Error('The repository has no backup.')
  return momentTime(last.moments.at(-1) ?? last.id)
}

async function ancestry(repository: Repository, id: string): Promise<Backup[]> {
  const backups: Backup[] = []
  for (let next: string | null = id; next !== null; next = backups[0]?.parent ?? null)
    backups.unshift(await readBackup(repository, next))
  return backups
}
