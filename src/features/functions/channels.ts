/** Channels between the API process that waits for a run and the worker that makes it. */

import { internalsOf } from '../../access/internals.ts'
import type { WorkspaceScope } from '../../access/scope.ts'

declare module '../../access/internals.ts' {
  interface PlatformServices {
    readonly channels: Channels
  }
}

/** As in infra/valkey/channels.ts. */
export interface Channels {
  /** The number of open channels. */
  readonly size: number
  open(channel: string, receiver: { message(bytes: Buffer): void; lost(): void }): Promise<() => void>
  send(channel: string, bytes: Buffer): Promise<void>
  close(): void
}

export const channelsOf = (scope: WorkspaceScope): Channels => internalsOf(scope).services.channels
