/** Settings of commands that act on the installation itself: those of the environment, else of the platform that runs in this folder. */

import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { findRunning } from '../../../stack/start.ts'
import { withMasterKeys } from '../../infra/crypto/key-provider.ts'
import { formatMasterKeys, parseMasterKeys } from '../../infra/crypto/master-keys.ts'
import { readSettings, type Settings } from '../settings.ts'

const DIR = resolve('.tenon')

/** With `DATABASE_URL` of the local PostgreSQL, and `TENON_MASTER_KEY` of the local file, where the environment has none. */
export async function ownerSettings(): Promise<Settings> {
  const settings = { ...findRunning(DIR)?.env, ...(await readSettings()) }
  if (settings['TENON_MASTER_KEY'] || settings['TENON_KEY_PROVIDER']) return withMasterKeys(settings)
  const file = await readFile(join(DIR, 'master.key'), 'utf8').catch(() => '')
  return file.trim() === ''
    ? settings
    : { ...settings, TENON_MASTER_KEY: formatMasterKeys(parseMasterKeys(file)) }
}
