/** Runs in containers of their own (docker-compose.yml) what the embedded stack does within its process. */

import { ensureCertificate } from '../../../stack/certificate.ts'
import { startUiProxy } from '../../../stack/temporal-ui.ts'

const PORT = 8_233
/** The server of the other container may run as another user; the volume is mounted there alone. */
const READABLE = 0o644

/** Makes the certificate of the object store, unless it is there. @returns the exit code */
export function makeCertificate(path: string): number {
  ensureCertificate(path, READABLE)
  return 0
}

/**
 * Serves the Temporal UI of TEMPORAL_UI_UPSTREAM on port 8233, for users who open TEMPORAL_UI_URL, until it is stopped.
 * @returns the exit code
 */
export async function serveTemporalUi(
  {
    TEMPORAL_UI_URL = 'http://127.0.0.1:8233',
    TEMPORAL_UI_UPSTREAM = 'http://temporal-ui:6667',
  }: NodeJS.ProcessEnv = process.env,
): Promise<number> {
  const { hostname, port } = new URL(TEMPORAL_UI_UPSTREAM)
  const proxy = await startUiProxy({
    listen: { host: '0.0.0.0', port: PORT },
    upstream: { host: hostname, port: Number(port || 80) },
    url: new URL(TEMPORAL_UI_URL),
  })
  await new Promise<void>((stopped) => {
    process.once('SIGTERM', () => stopped()).once('SIGINT', () => stopped())
  })
  await proxy.close()
  return 0
}
