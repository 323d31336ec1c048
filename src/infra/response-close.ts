/** Tells when the connection of an HTTP response has closed. */

import type { ServerResponse } from 'node:http'

/** @param callback called once the connection has closed, or at once if it has; idempotent, since it may be called twice */
export function onClose(response: ServerResponse, callback: () => void): void {
  response.once('close', callback)
  // A connection that has closed before emits no further event.
  if (response.destroyed) callback()
}
