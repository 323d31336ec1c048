/** Channels between the API process that waits for a run and the worker that makes it. */

import { privilege } from '../../access/privileges.ts'
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

const channels = privilege('functions.channels')

export const channelsOf = (scope: WorkspaceScope): Channels => channels(scope)
