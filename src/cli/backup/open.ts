/** Opens what backups need: the repository, and the installation of the settings or of the platform that runs in this folder. */

import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { S3Client } from '@aws-sdk/client-s3'
import { findRunning } from '../../../stack/start.ts'
import { type Installation, identify, withDatabase } from '../../backup/installation.ts'
import { findPrograms } from '../../backup/postgres/programs.ts'
import { isBucket, openBucket } from '../../backup/repository/bucket-store.ts'
import type { FileStore } from '../../backup/repository/file-store.ts'
import { openFolder } from '../../backup/repository/folder-store.ts'
import { Repository } from '../../backup/repository/repository.ts'
import { type Config, ConfigError } from '../../infra/config.ts'
import { rootOf, storeOf } from '../../infra/s3/options.ts'
import { callerPath, need, type Settings } from '../settings.ts'
import { configOf, ownerSettings, withDerived } from '../stack/owner-settings.ts'

/** The data folder of `npm start`. */
export const LOCAL = resolve('.tenon')

export interface RepositoryOption {
  readonly repository?: string
}

/** @throws Error that names the setting, if there is no passphrase */
const readPassphrase = (settings: Settings): string => need(settings, 'TENON_BACKUP_PASSPHRASE')

const storeAt = (address: string, settings: Settings): FileStore =>
  isBucket(address) ? openBucket(address, settings) : openFolder(callerPath(address))

const addressOf = ({ repository }: RepositoryOption, settings: Settings): string =>
  repository ?? need(settings, 'TENON_BACKUP_REPOSITORY')

/** Tells what goes on, on stderr. */
export const note = (text: string) => void process.stderr.write(`${text}\n`)

/** Runs work with a repository that exists. */
export async function withRepository<T>(
  options: RepositoryOption,
  work: (repository: Repository) => Promise<T>,
): Promise<T> {
  const settings = await ownerSettings()
  const store = storeAt(addressOf(options, settings), settings)
  try {
    return await work(await Repository.open(store, readPassphrase(settings)))
  } finally {
    store.close()
  }
}

/** A document store has no moment that could be that of the others. */
const WITHOUT_MONGO =
  'MongoDB is not part of the backup: documents of collections in the document store are not in it. Back up MONGODB_URL with its own tools.'

/** Runs work with the running installation and its repository, which is made if there is none. */
export async function withInstallation<T>(
  options: RepositoryOption,
  work: (opened: { readonly installation: Installation; readonly repository: Repository }) => Promise<T>,
): Promise<T> {
  const settings = withDerived(await ownerSettings())
  const address = addressOf(options, settings)
  const passphrase = readPassphrase(settings)
  const config = requireConfig(settings)
  const objects = new S3Client({ ...storeOf(config), credentials: rootOf(config) })
  const store = storeAt(address, settings)
  try {
    const installation = await describe(settings, config, objects)
    const id = await withDatabase(installation.databaseUrl, identify)
    const repository = await Repository.openOrMake(store, passphrase, id)
    if (repository.isNew)
      note(
        `There was no repository at ${store.address}: it was made. Keep its passphrase where the installation is not.`,
      )
    if (config.MONGODB_URL) note(WITHOUT_MONGO)
    return await work({ installation, repository })
  } finally {
    objects.destroy()
    store.close()
  }
}

/** @throws Error with the faults of the settings */
export function requireConfig(settings: Settings): Config {
  const config = configOf(settings)
  if (config instanceof ConfigError) throw config
  return config
}

async function describe(settings: Settings, config: Config, objects: S3Client): Promise<Installation> {
  const isLocal = (name: string) =>
    findRunning(LOCAL)?.servers.some((server) => server.name === name && server.origin === 'embedded') ??
    false
  return {
    databaseUrl: need(settings, 'DATABASE_URL'),
    programs: await findPrograms(process.env),
    objects,
    temporalFile: isLocal('temporal') ? resolve(LOCAL, 'temporal/temporal.db') : undefined,
    mongoUrl: config.MONGODB_URL,
    secrets: await readSecrets(settings),
    folder: resolve(LOCAL, 'backup'),
  }
}

/** With a key of KMS, the wrapped master key and the name of that key: both are worth nothing without the right to use it. */
async function readSecrets(settings: Settings): Promise<Record<string, string>> {
  const local = await Promise.all(
    ['secrets.json', 'master.key', 'master.made'].map(async (name) => {
      const text = await readFile(resolve(LOCAL, name), 'utf8').catch(() => undefined)
      return text === undefined ? [] : [[name, text] as const]
    }),
  )
  const { TENON_KEY_PROVIDER: provider, TENON_KMS_KEY_ID: kms, TENON_MASTER_KEY: keys } = settings
  const named = provider === 'kms' ? { TENON_KMS_KEY_ID: kms ?? '' } : { TENON_MASTER_KEY: keys ?? '' }
  return { ...named, ...Object.fromEntries(local.flat()) }
}
