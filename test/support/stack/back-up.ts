/** Makes backups of a platform that runs, into a folder. */

import { S3Client } from '@aws-sdk/client-s3'
import { createBackup } from '../../../src/backup/create.ts'
import { type Installation, identify, withDatabase } from '../../../src/backup/installation.ts'
import { findPrograms } from '../../../src/backup/postgres/programs.ts'
import { openFolder } from '../../../src/backup/repository/folder-store.ts'
import { Repository } from '../../../src/backup/repository/repository.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { rootOf, storeOf } from '../../../src/infra/s3/options.ts'
import type { Running } from './start.ts'

/** @param folder for what a backup keeps beside its repository @returns an installation whose `objects` the caller destroys */
export async function openInstallation(
  { env, databaseUrl }: Running,
  folder: string,
): Promise<Installation & { readonly objects: S3Client }> {
  const config = parseConfig(env)
  const objects = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  const programs = await findPrograms(process.env)
  return { databaseUrl, programs, objects, temporalFile: undefined, mongoUrl: undefined, secrets: {}, folder }
}

/** Makes a full backup. @param folder of the repository */
export async function backUp(installation: Installation, folder: string): Promise<void> {
  const id = await withDatabase(installation.databaseUrl, identify)
  const repository = await Repository.openOrMake(openFolder(folder), 'four words in a row', id)
  await createBackup({
    ...{ installation, repository, version: '0', incremental: false },
    ...{ onNotice: () => {}, onProgress: () => {} },
  })
}
