/** The channels on which API process and worker exchange the requests that functions serve. */

import { internalsOf } from '../../../access/internals.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Peer, type Side, type Transport } from './peer.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly channels: Transport
  }
}

/** An end of the exchange of a run of this workspace. @throws Problem `dependency_unavailable` */
export function openPeer(scope: WorkspaceScope, runId: string, side: Side): Promise<Peer> {
  return Peer.open(internalsOf(scope).services.channels, scope.ref, runId, side)
}
