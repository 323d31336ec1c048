/** Settings of commands that act on the installation itself: those of the environment, else of the platform that runs in this folder. */

import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { findRunning } from '../../../stack/start.ts'
import { type Config, ConfigError, parseConfig } from '../../infra/config.ts'
import { withMasterKeys } from '../../infra/crypto/key-provider.ts'
import { formatMasterKeys, parseMasterKeys } from '../../infra/crypto/master-keys.ts'
import { DERIVED, deriveSecret } from '../../infra/crypto/secrets.ts'
import { readSettings, type Settings } from '../settings.ts'

const DIR = resolve('.tenon')

/** With `DATABASE_URL` of the local PostgreSQL, and `TENON_MASTER_KEY` of the local file, where the environment has none. */
export async function ownerSettings(): Promise<Settings> {
  const settings = { ...findRunning(DIR)?.env, ...(await readSettings()) }
  const sources = ['TENON_MASTER_KEY', 'TENON_MASTER_KEY_FILE', 'TENON_KEY_PROVIDER']
  if (sources.some((name) => settings[name])) return withMasterKeys(settings)
  const file = await readFile(join(DIR, 'master.key'), 'utf8').catch(() => '')
  return file.trim() === ''
    ? settings
    : { ...settings, TENON_MASTER_KEY: formatMasterKeys(parseMasterKeys(file)) }
}

/** Settings of the platform's processes that follow from the database and the master key. */
export function withDerived(settings: Settings): Settings {
  const { DATABASE_URL: url, TENON_APP_PASSWORD: password, TENON_MASTER_KEY: masterKey } = settings
  if (!masterKey || !url || !URL.canParse(url)) return settings
  const appUrl = new URL(url)
  appUrl.username = 'tenon_app'
  appUrl.password = password || deriveSecret(masterKey, DERIVED.appPassword)
  const given = settings['DATABASE_APP_URL']
  return { ...settings, DATABASE_APP_URL: given || appUrl.href }
}

/** The configuration of the platform's processes with these settings. */
export function configOf(settings: Settings): Config | ConfigError {
  try {
    return parseConfig(settings)
  } catch (error) {
    if (error instanceof ConfigError) return error
    throw error
  }
}
