/** Commands of containers and external installations: the certificate of the object store, the Temporal UI. */

import { dirname } from 'node:path'
import { ensureCertificate } from '../../../stack/certificate.ts'
import { startUiProxy } from '../../../stack/temporal-ui.ts'

const PORT = 8_233
/** The server may run as another user. Only its container mounts the volume. */
const READABLE = 0o644
const UNWRITABLE = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'ENOENT']

/**
 * Creates the certificate of the object store, if it does not exist. @returns the exit code
 * @throws Error with a sentence if its folder cannot be written
 */
export function makeCertificate(path: string): number {
  try {
    ensureCertificate(path, READABLE)
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (!UNWRITABLE.includes(code)) throw cause
    const user = `${process.getuid?.()}:${process.getgid?.()}`
    throw new Error(
      `The certificate cannot be written to ${path} (${code}). Give the folder ${dirname(path)}, in a container its volume, to the user ${user}, and make it writable.`,
      { cause },
    )
  }
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
