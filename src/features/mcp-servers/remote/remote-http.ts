/** Requests to the server of a source: guarded, bounded, and with redirects within one origin alone. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { sendHttp } from '../../../access/scope-services.ts'
import { type Bounds, type Inbound, isSafe, type Outbound } from '../../../infra/http-client/egress.ts'
import { egressAllowed, egressAllowedNow } from '../../tenants/workspace-settings.ts'

const REDIRECTS_MAX = 3
const REDIRECTS = [301, 302, 303, 307, 308]

/**
 * Sends a request under the egress rules of the workspace. A redirect of a safe method is followed within its origin; any
 * other one is returned, since the next server would get credentials and arguments that are not meant for it.
 * @throws Problem `egress_refused`, `upstream_timeout`, `upstream_unavailable`, `upstream_invalid`
 */
export async function sendRemote(
  scope: WorkspaceScope,
  outbound: Outbound,
  bounds: Bounds,
): Promise<Inbound> {
  const sender = { allowed: await egressAllowed(scope), allowedNow: () => egressAllowedNow(scope) }
  const untilMs = performance.now() + bounds.timeoutMs
  let { url } = outbound
  for (let followed = 0; ; followed += 1) {
    const timeoutMs = Math.max(1, untilMs - performance.now())
    const inbound = await sendHttp(scope, { ...outbound, url }, sender, { ...bounds, timeoutMs })
    const next = redirectOf(inbound, url)
    if (next === undefined || !isSafe(outbound.method) || followed === REDIRECTS_MAX) return inbound
    url = next
  }
}

/** The target of a redirect within the origin of its request. */
function redirectOf({ status, headers }: Inbound, from: URL): URL | undefined {
  const { location = '' } = headers
  if (!REDIRECTS.includes(status) || !URL.canParse(location, from.href)) return undefined
  const to = new URL(location, from)
  return to.origin === from.origin ? to : undefined
}
