/** `tenon migrate`: for installations whose servers run elsewhere; `tenon up` does it by itself. */

import { migrate } from '../../platform/pg/migrate.ts'
import { DERIVED, deriveSecret } from '../../platform/secrets.ts'
import { need } from '../settings.ts'

/**
 * Reads DATABASE_URL, TENON_APP_PASSWORD and TENON_BUILDER_PASSWORD; passwords that are not given follow from
 * TENON_MASTER_KEY. @returns the exit code
 */
export async function migrateFromEnvironment(): Promise<number> {
  const { TENON_APP_PASSWORD, TENON_BUILDER_PASSWORD } = process.env
  const derived = (purpose: string) => deriveSecret(need(process.env, 'TENON_MASTER_KEY'), purpose)
  const passwords = {
    app: TENON_APP_PASSWORD || derived(DERIVED.appPassword),
    builder: TENON_BUILDER_PASSWORD || derived(DERIVED.builderPassword),
  }
  const { applied } = await migrate(need(process.env, 'DATABASE_URL'), passwords)
  process.stdout.write(applied.length === 0 ? 'Up to date.\n' : `${applied.join('\n')}\n`)
  return 0
}
