/** Where the demo happens, and what a part of it leaves to be seen. */

import type { ApiClient } from '../client.ts'

export interface Place {
  readonly url: string
  readonly workspaceId: string
  /** With the operator's rights. */
  readonly admin: ApiClient
  /** With the workspace's service key. */
  readonly data: ApiClient
  readonly serviceKey: string
}

/** One service, seen to work: a line for the screen. */
export interface Proof {
  readonly title: string
  readonly text: string
}

/** Does one thing with a service as any client would; doing it again is harmless. */
export type Part = (place: Place) => Promise<Proof>
