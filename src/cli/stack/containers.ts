/** Commands of containers and external installations: `tenon migrate`, the certificate of the object store, the Temporal UI. */

import { Connection } from '@temporalio/client'
import { ensureCertificate } from '../../../stack/certificate.ts'
import { startUiProxy } from '../../../stack/temporal-ui.ts'
import { withMasterKeys } from '../../infra/crypto/key-provider.ts'
import { DERIVED, deriveSecret } from '../../infra/crypto/secrets.ts'
import { migrate } from '../../infra/postgres/migrate.ts'
import { ensureNamespace } from '../../infra/temporal/namespace.ts'
import { need } from '../settings.ts'

const PORT = 8_233
/** For all calls of a migration of Temporal. A new namespace takes some 10 s until all of its parts know it. */
const TEMPORAL_MS = 90_000
/** The server may run as another user. Only its container mounts the volume. */
const READABLE = 0o644

/** Creates the certificate of the object store, if it does not exist. @returns the exit code */
export function makeCertificate(path: string): number {
  ensureCertificate(path, READABLE)
  return 0
}

/**
 * Serves the Temporal UI of TEMPORAL_UI_UPSTREAM on port 8233, for users who open TEMPORAL_UI_URL, until it is stopped.
 * TEMPORAL_CODEC_ENDPOINT is the URL of the codec server as browsers reach it.
 * @returns the exit code
 */
export async function serveTemporalUi(
  {
    TEMPORAL_UI_URL = 'http://127.0.0.1:8233',
    TEMPORAL_UI_UPSTREAM = 'http://temporal-ui:6667',
    TEMPORAL_CODEC_ENDPOINT,
    TEMPORAL_NAMESPACE = 'default',
  }: NodeJS.ProcessEnv = process.env,
): Promise<number> {
  const { hostname, port } = new URL(TEMPORAL_UI_UPSTREAM)
  const proxy = await startUiProxy({
    listen: { host: '0.0.0.0', port: PORT },
    upstream: { host: hostname, port: Number(port || 80) },
    url: new URL(TEMPORAL_UI_URL),
    namespace: TEMPORAL_NAMESPACE,
    ...(TEMPORAL_CODEC_ENDPOINT && { codecEndpoint: () => TEMPORAL_CODEC_ENDPOINT }),
  })
  await new Promise<void>((stopped) => {
    process.once('SIGTERM', () => stopped()).once('SIGINT', () => stopped())
  })
  await proxy.close()
  return 0
}

/**
 * Migrates DATABASE_URL, and Temporal if TEMPORAL_ADDRESS is set. TENON_APP_PASSWORD and TENON_BUILDER_PASSWORD are by default
 * derived from TENON_MASTER_KEY. @returns the exit code
 */
export async function migrateFromEnvironment(): Promise<number> {
  const settings = await withMasterKeys(process.env)
  const { TENON_APP_PASSWORD, TENON_BUILDER_PASSWORD, TENON_MASTER_KEY: masterKeys } = settings
  const derived = (purpose: string) => deriveSecret(need(settings, 'TENON_MASTER_KEY'), purpose)
  const secrets = {
    ...(masterKeys && { masterKeys }),
    app: TENON_APP_PASSWORD || derived(DERIVED.appPassword),
    builder: TENON_BUILDER_PASSWORD || derived(DERIVED.builderPassword),
  }
  const { applied } = await migrate(need(process.env, 'DATABASE_URL'), secrets)
  const made = [...applied, ...(await migrateTemporal(process.env))]
  process.stdout.write(made.length === 0 ? 'Up to date.\n' : `${made.join('\n')}\n`)
  return 0
}

/** Makes namespace and search attributes in the Temporal of TEMPORAL_ADDRESS, if it is set. @returns what was made */
async function migrateTemporal({
  TEMPORAL_ADDRESS: address,
  TEMPORAL_NAMESPACE: namespace = 'default',
}: NodeJS.ProcessEnv): Promise<string[]> {
  if (!address) return []
  const connection = await Connection.connect({ address }).catch((cause: unknown) => {
    throw new Error(`Temporal does not answer at ${address} (TEMPORAL_ADDRESS). The database is migrated.`, {
      cause,
    })
  })
  try {
    return await connection.withDeadline(Date.now() + TEMPORAL_MS, () =>
      ensureNamespace(connection, namespace),
    )
  } finally {
    await connection.close()
  }
}
