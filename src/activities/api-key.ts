/** The key by which Temporal trusts the worker; it may be replaced while the worker runs. */

import { IllegalStateError, type NativeConnection } from '@temporalio/worker'
import type { Log } from '../infra/log.ts'

/** How often a key that may have been replaced is looked at. */
const KEY_MS = 1_000

/** Gives the connection each new key, until the connection is closed. A key that it does not take is given to it again. */
export function keepApiKey(
  connection: Pick<NativeConnection, 'setApiKey'>,
  apiKey: () => string,
  log: Pick<Log, 'info' | 'warn'>,
): void {
  let known = apiKey()
  const timer = setInterval(() => {
    const key = apiKey()
    if (key === known) return
    const before = known
    known = key
    connection.setApiKey(key).then(
      () => log.info({}, 'the API key of Temporal was replaced'),
      (err: unknown) => {
        // The SDK says so of a connection that is closed.
        if (err instanceof IllegalStateError) return clearInterval(timer)
        known = before
        log.warn({ err }, 'the API key of Temporal could not be replaced; the worker tries it again')
      },
    )
  }, KEY_MS)
  timer.unref()
}
