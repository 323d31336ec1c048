/** Requests to the server of a source: guarded, bounded, and with redirects within one origin alone. Nothing of the caller is sent. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { sendHttp } from '../../../access/scope-services.ts'
import { CHAIN_DEPTH_HEADER } from '../../../core/execution.ts'
import {
  type Bounds,
  type Inbound,
  isSafe,
  type Outbound,
  type Sender,
} from '../../../infra/http-client/egress.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { nextChainDepth } from '../../operation-helpers.ts'
import { egressAllowed, egressAllowedNow } from '../../tenants/workspace-settings.ts'

const REDIRECTS_MAX = 3
const REDIRECTS = [301, 302, 303, 307, 308]

/**
 * Sends a request under the egress rules of the workspace. A redirect of a safe method is followed within its origin; any
 * other one is returned, since the next server would get credentials and arguments that are not meant for it.
 * @throws Problem `egress_refused`, `upstream_timeout`, `upstream_unavailable`, `upstream_invalid`; `state_conflict` if too many
 *   calls are within each other
 */
export async function sendRemote(
  scope: WorkspaceScope,
  { headers: own, ...outbound }: Outbound,
  { reusesAlways = false, ...bounds }: Bounds & Pick<Sender, 'reusesAlways'>,
): Promise<Inbound> {
  const headers = { ...own, [CHAIN_DEPTH_HEADER]: nextDepth(scope) }
  const allowed = await egressAllowed(scope)
  const sender = { allowed, allowedNow: () => egressAllowedNow(scope), reusesAlways }
  const untilMs = performance.now() + bounds.timeoutMs
  let { url } = outbound
  for (let followed = 0; ; followed += 1) {
    const timeoutMs = Math.max(1, untilMs - performance.now())
    const inbound = await sendHttp(scope, { ...outbound, url, headers }, sender, { ...bounds, timeoutMs })
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

/**
 * How many calls of tools are around the request, which a hosted server reads: the server of a source may be one of this
 * platform, and have the calling server as its own source.
 */
function nextDepth({ actor }: WorkspaceScope): string {
  const detail = `The call has passed through ${SHARED_LIMITS.chainDepthMax} servers and flows, which may form a loop.`
  return String(nextChainDepth(actor.chainDepth ?? 0, detail))
}
