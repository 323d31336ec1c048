/** `tenon migrate`: for installations whose servers run elsewhere; `tenon up` does it by itself. */

import { migrate } from '../../platform/pg/migrate.ts'
import { DERIVED, deriveSecret } from '../../platform/secrets.ts'
import { need } from '../settings.ts'

/** Reads DATABASE_URL and TENON_APP_PASSWORD, or derives the latter from TENON_MASTER_KEY. @returns the exit code */
export async function migrateFromEnvironment(): Promise<number> {
  const { TENON_APP_PASSWORD: given } = process.env
  const password = given || deriveSecret(need(process.env, 'TENON_MASTER_KEY'), DERIVED.appPassword)
  const { applied } = await migrate(need(process.env, 'DATABASE_URL'), password)
  process.stdout.write(applied.length === 0 ? 'Up to date.\n' : `${applied.join('\n')}\n`)
  return 0
}
