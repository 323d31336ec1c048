/** `tenon restore`: restores the installation of this folder to a time, and lets its triggers go on when it was looked at. */

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { S3Client } from '@aws-sdk/client-s3'
import { Connection, Client as TemporalClient } from '@temporalio/client'
import { startStack } from '../../../stack/start.ts'
import { withDatabase } from '../../backup/installation.ts'
import { planRestore, type RestorePlan } from '../../backup/plan.ts'
import type { Repository } from '../../backup/repository/repository.ts'
import { REPLACED, restoreLocal, UNFINISHED } from '../../backup/restore.ts'
import { finishRestore } from '../../backup/restored-database.ts'
import { restoreObjects } from '../../backup/restored-objects.ts'
import { restartStreams } from '../../backup/restored-streams.ts'
import { settleWorkflows } from '../../backup/restored-workflows.ts'
import { Buckets } from '../../infra/s3/buckets.ts'
import { rootOf, storeOf } from '../../infra/s3/options.ts'
import { need, type Settings } from '../settings.ts'
import { ownerSettings, withDerived } from '../stack/owner-settings.ts'
import { printLine } from '../verb.ts'
import { LOCAL, type RepositoryOption, requireConfig, withRepository } from './open.ts'

export interface RestoreOptions extends RepositoryOption {
  readonly to: string
  readonly yes?: string
}

const note = (text: string) => void process.stderr.write(`${text} …\n`)

export const restore = ({ to, yes, ...options }: RestoreOptions): Promise<number> =>
  withRepository(options, async (repository) => {
    const plan = await planRestore(repository, to)
    const purged = await restoreLocal({
      repository,
      plan,
      dir: LOCAL,
      env: process.env,
      yes,
      onProgress: note,
    })
    await settleLocal(repository, plan)
    await rm(join(LOCAL, UNFINISHED))
    printLine(`The installation is as it was at ${plan.to}.`)
    if (purged > 0) printLine(`${purged} tenants and workspaces that were purged later will be purged again.`)
    printLine(
      'Start it with `npm start` and look at it. Its triggers are paused until `npx tenon restore finish`.',
    )
    return 0
  })

/** Also removes what the restore has replaced. */
export async function finish(): Promise<number> {
  const settings = await ownerSettings()
  const finished = await withDatabase(need(settings, 'DATABASE_URL'), finishRestore)
  await rm(join(LOCAL, REPLACED), { recursive: true, force: true })
  if (finished === undefined) {
    printLine('There is no restore to finish.')
    return 0
  }
  printLine(`The restore to ${finished.to} is finished. ${finished.resumed} triggers go on.`)
  return 0
}

/** Objects and Temporal, with the servers of this folder, and without the platform. */
async function settleLocal(repository: Repository, plan: RestorePlan): Promise<void> {
  const stack = await startStack({ dir: LOCAL, ephemeral: false, env: process.env, onProgress: () => {} })
  try {
    await settle(repository, plan, { ...(await ownerSettings()), ...stack.env })
  } finally {
    await stack.stop()
  }
}

async function settle(repository: Repository, plan: RestorePlan, settings: Settings): Promise<void> {
  const config = requireConfig(withDerived(settings))
  const store = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  // Nothing else makes buckets meanwhile.
  const buckets = new Buckets(config, (work) => work())
  const connection = await Connection.connect({ address: config.TEMPORAL_ADDRESS })
  const temporal = new TemporalClient({ connection, namespace: config.TEMPORAL_NAMESPACE })
  try {
    await withDatabase(need(settings, 'DATABASE_URL'), async (database) => {
      note('restoring the bytes of objects')
      const { written, missing } = await restoreObjects(repository, { store, buckets }, database, plan.states)
      printLine(`${written} blobs of objects were written.`)
      for (const { bucket, blob } of missing)
        printLine(`The bytes ${blob} of an object in the bucket ${bucket} are in no backup.`)
      await restartStreams(database, config.REDIS_URL)
      note('comparing Temporal with the database')
      const { terminated, schedulesRemoved, jobsEnded } = await settleWorkflows(database, temporal)
      printLine(
        `${terminated} workflows and ${schedulesRemoved} schedules of Temporal were of later times, and ended; ${jobsEnded} jobs have lost their workflow.`,
      )
    })
  } finally {
    await connection.close()
    buckets.close()
    store.destroy()
  }
}
