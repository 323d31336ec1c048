/** `tenon restore`: restores the installation of this folder to a time, and lets its triggers go on when it was looked at. */

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { S3Client } from '@aws-sdk/client-s3'
import { Connection, Client as TemporalClient } from '@temporalio/client'
import { startStack } from '../../../stack/start.ts'
import { withDatabase } from '../../backup/installation.ts'
import { planRestore, type RestorePlan } from '../../backup/plan.ts'
import type { Repository } from '../../backup/repository/repository.ts'
import { removeReplaced, restoreLocal, restoringAlone, UNFINISHED } from '../../backup/restore.ts'
import { finishRestore } from '../../backup/restored-database.ts'
import { restoreObjects } from '../../backup/restored-objects.ts'
import { restartStreams } from '../../backup/restored-streams.ts'
import { settleWorkflows } from '../../backup/restored-workflows.ts'
import { sentences } from '../../core/text/sentences.ts'
import { Buckets } from '../../infra/s3/buckets.ts'
import { rootOf, storeOf } from '../../infra/s3/options.ts'
import { clientOptions } from '../../infra/temporal/connection.ts'
import { callerPath, need, type Settings } from '../settings.ts'
import { readEnvironment } from '../stack/environment.ts'
import { ownerSettings, withDerived } from '../stack/owner-settings.ts'
import { printJson, printLine } from '../verb.ts'
import { LOCAL, note, type RepositoryOption, requireConfig, withRepository } from './open.ts'

export interface RestoreOptions extends RepositoryOption {
  readonly to: string
  readonly yes?: string
  readonly json?: true
}

const noteStep = (text: string) => note(`${text} …`)

/** The results of restoring the stores other than PostgreSQL. */
interface Settled {
  readonly written: number
  /** Bytes of objects that are missing or wrong. */
  readonly faults: readonly string[]
  readonly terminated: number
  readonly schedulesRemoved: number
  readonly jobsBegun: number
}

/** @returns exit code 2 if bytes of objects are missing or wrong */
export const restore = ({ to, yes, json, ...options }: RestoreOptions): Promise<number> =>
  withRepository(options, async (repository) => {
    const plan = await planRestore(repository, to)
    const { purged, settled } = await restoringAlone(LOCAL, async () => {
      const purged = await restoreLocal({
        repository,
        plan,
        dir: LOCAL,
        env: readEnvironment(callerPath),
        yes,
        onProgress: noteStep,
      })
      const settled = await settleLocal(repository, plan).catch((error: Error) => {
        const advice = 'The restore has not ended: `npm start` refuses until it has.'
        throw new Error(sentences(error.message, advice), { cause: error })
      })
      await rm(join(LOCAL, UNFINISHED))
      return { purged, settled }
    })
    if (json) printJson({ to: plan.to, purged_again: purged, ...shown(settled) })
    else printRestored(plan.to, purged, settled)
    return settled.faults.length === 0 ? 0 : 2
  })

const shown = ({ written, faults, terminated, schedulesRemoved, jobsBegun }: Settled) => ({
  ...{ blobs_written: written, faults, workflows_ended: terminated },
  ...{ schedules_removed: schedulesRemoved, jobs_begun: jobsBegun },
})

function printRestored(to: string, purged: number, settled: Settled): void {
  const { written, faults, terminated, schedulesRemoved, jobsBegun } = settled
  printLine(`${written} blobs of objects were written.`)
  for (const fault of faults) printLine(fault)
  printLine(
    `${terminated} workflows and ${schedulesRemoved} schedules of Temporal were of later times, and ended; ${jobsBegun} jobs have lost their workflow, and begin again.`,
  )
  printLine(`The installation is as it was at ${to}.`)
  if (purged > 0) printLine(`${purged} tenants and workspaces that were purged later will be purged again.`)
  printLine(
    'Start it with `npm start` and look at it. Its triggers are paused until `npx tenon restore finish`.',
  )
}

export interface FinishOptions {
  readonly json?: true
}

/** Also removes what the restore has replaced. */
export async function finish({ json }: FinishOptions): Promise<number> {
  const settings = await ownerSettings()
  const finished = await withDatabase(need(settings, 'DATABASE_URL'), finishRestore)
  await removeReplaced(LOCAL, process.env)
  if (json) return printJson(finished ?? { to: null, resumed: 0 })
  printLine(
    finished === undefined
      ? 'There is no restore to finish.'
      : `The restore to ${finished.to} is finished. ${finished.resumed} triggers go on.`,
  )
  return 0
}

/** Objects and Temporal, with the servers of this folder, and without the platform. */
async function settleLocal(repository: Repository, plan: RestorePlan): Promise<Settled> {
  noteStep('starting the servers')
  const stack = await startStack({
    dir: LOCAL,
    ephemeral: false,
    env: readEnvironment(callerPath),
    onProgress: () => {},
  })
  try {
    return await settle(repository, plan, { ...(await ownerSettings()), ...stack.env })
  } finally {
    await stack.stop()
  }
}

async function settle(repository: Repository, plan: RestorePlan, settings: Settings): Promise<Settled> {
  const config = requireConfig(withDerived(settings))
  if (config.MONGODB_URL)
    note(
      'MongoDB was not part of the backup: its documents stay as they are. Restore MONGODB_URL with its own tools.',
    )
  const store = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  // Nothing else makes buckets meanwhile.
  const buckets = new Buckets(config, (work) => work())
  const connection = await Connection.connect(clientOptions(config.TEMPORAL))
  const temporal = new TemporalClient({ connection, namespace: config.TEMPORAL.namespace })
  try {
    return await withDatabase(need(settings, 'DATABASE_URL'), async (database) => {
      noteStep('restoring the bytes of objects')
      const restored = await restoreObjects(repository, { store, buckets }, database, plan.states)
      try {
        noteStep('beginning event streams anew')
        await restartStreams(database, config.VALKEY)
        noteStep('comparing Temporal with the database')
        return { ...restored, ...(await settleWorkflows(database, temporal)) }
      } catch (error) {
        // They would be lost with the result.
        for (const fault of restored.faults) note(fault)
        throw error
      }
    })
  } finally {
    await connection.close()
    buckets.close()
    store.destroy()
  }
}
