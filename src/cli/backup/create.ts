/** `tenon backup create|list`. */

import project from '../../../package.json' with { type: 'json' }
import { createBackup } from '../../backup/create.ts'
import { followBackups } from '../../backup/follow.ts'
import { listChains, momentTime, rangesOf, readBackup } from '../../backup/manifests.ts'
import { planRestore } from '../../backup/plan.ts'
import { findPrograms } from '../../backup/postgres/programs.ts'
import { pruneBackups } from '../../backup/prune.ts'
import { verifyBackup } from '../../backup/verify.ts'
import { durationMs } from '../../core/units.ts'
import { printJson, printLine, printTable } from '../verb.ts'
import { note, type RepositoryOption, withInstallation, withRepository } from './open.ts'

export interface CreateOptions extends RepositoryOption {
  readonly incremental?: true
  readonly json?: true
}

export const create = ({ incremental, json, ...options }: CreateOptions): Promise<number> =>
  withInstallation(options, async (opened) => {
    const backup = await createBackup({
      ...{ ...opened, version: project.version, incremental: incremental === true },
      ...{ onNotice: note, onProgress: (text) => note(`${text} …`) },
    })
    const { id, kind, first_moment } = backup
    const isWithoutMongo = opened.installation.mongoUrl !== undefined
    if (json)
      return printJson({ id, kind, at: first_moment.at, not_included: isWithoutMongo ? ['mongodb'] : [] })
    printLine(`The backup ${id} is complete. It can be restored to ${first_moment.at}.`)
    return 0
  })

export interface FollowOptions extends RepositoryOption {
  readonly every: string
  readonly json?: true
}

const SAMPLE = 100

export interface VerifyOptions extends RepositoryOption {
  readonly to: string
  readonly json?: true
}

/** @returns exit code 2 if bytes of objects are missing or wrong */
export const verify = ({ to, json, ...options }: VerifyOptions): Promise<number> =>
  withRepository(options, async (repository) => {
    const programs = await findPrograms(process.env)
    const result = await verifyBackup({ repository, programs }, await planRestore(repository, to), SAMPLE)
    const { files, rows, blobs, read, faults } = result
    if (json) printJson(result)
    else {
      printTable(
        ['TABLE', 'ROWS'],
        Object.entries(rows).map(([name, n]) => [name, String(n)]),
      )
      for (const fault of faults) printLine(`Wrong: ${fault}.`)
      printLine(
        `${files} files are as their manifests say. PostgreSQL was restored to ${result.to}, and removed again.`,
      )
      printLine(
        `Of ${blobs} blobs of objects, ${read} were read back. ${faults.length} are missing or wrong.`,
      )
    }
    return faults.length === 0 ? 0 : 2
  })

export interface PruneOptions extends RepositoryOption {
  readonly olderThan: string
  readonly dryRun?: true
  readonly json?: true
}

export const prune = ({ olderThan, dryRun, json, ...options }: PruneOptions): Promise<number> =>
  withRepository(options, async (repository) => {
    const before = new Date(Date.now() - durationMs(olderThan)).toISOString()
    const pruned = await pruneBackups(repository, { before, dryRun: dryRun === true })
    if (json) return printJson(pruned)
    const verb = dryRun ? 'would be' : 'were'
    for (const id of pruned.backups) printLine(`The backup ${id} ${verb} removed.`)
    printLine(`${pruned.files} files of ${pruned.bytes} bytes ${verb} removed.`)
    return 0
  })

const STATES_MS = 300_000

/** Until Ctrl-C, or SIGTERM. */
export const follow = ({ every, json, ...options }: FollowOptions): Promise<number> =>
  withInstallation(options, async (opened) => {
    const everyMs = durationMs(every)
    const stopping = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort())
    await followBackups({
      ...{
        ...opened,
        version: project.version,
        everyMs,
        statesMs: Math.max(everyMs, STATES_MS),
        signal: stopping.signal,
      },
      ...{ onNotice: note, onProgress: (text) => note(`${text} …`) },
      onMoment: (at) => printLine(json ? JSON.stringify({ at }) : `${at} can be restored.`),
    })
    return 0
  })

export const list = ({ json, ...options }: RepositoryOption & { readonly json?: true }): Promise<number> =>
  withRepository(options, async (repository) => {
    const chains = await listChains(repository)
    const backups = await Promise.all(
      chains.map(async ({ id, moments }) => {
        const { kind, parent } = await readBackup(repository, id)
        return { id, kind, parent, from: momentTime(id), until: momentTime(moments.at(-1) ?? id) }
      }),
    )
    const ranges = rangesOf(chains)
    if (json) return printJson({ installation: repository.installation, backups, ranges })
    printTable(
      ['BACKUP', 'KIND', 'FROM', 'UNTIL'],
      backups.map(({ id, kind, from, until }) => [id, kind, from, until]),
    )
    for (const { from, until } of ranges) printLine(`Each time from ${from} until ${until} can be restored.`)
    return 0
  })
