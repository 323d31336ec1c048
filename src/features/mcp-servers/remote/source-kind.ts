/** The interface of a kind of source: how its definitions are read, and how its tools are called. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Progress } from '../calls/call-client.ts'
import type { ImageSettings } from '../images/image-settings.ts'
import type { ToolOutput } from '../tool.ts'
import type { FrozenDefinition, PinnedDefinitions } from './definitions.ts'
import type { HeaderChoices } from './source-headers.ts'

/** A source without its definitions. */
export interface RemoteSource {
  readonly id: string
  readonly name: string
  readonly kind: 'openapi' | 'mcp' | 'image'
  /** `oci://…` for an image. */
  readonly url: string
  readonly base_url: string | null
  readonly headers: HeaderChoices
  /** Null for other kinds. */
  readonly image: ImageSettings | null
}

/** A stored source: what is pinned of it, and what differed when it was last read. */
export interface PinnedSource extends RemoteSource, Pick<PinnedDefinitions, 'hashes' | 'hash'> {
  readonly state: 'ready' | 'drifted' | 'failed'
}

export interface SourceKind {
  /**
   * Reads the tools that the source offers now.
   * @param document an OpenAPI document in place of the one at the URL
   * @throws Problem if it cannot be read; its text is stored and shown, so it holds no secret
   */
  readonly read: (
    scope: WorkspaceScope,
    source: RemoteSource,
    document?: unknown,
  ) => Promise<PinnedDefinitions>
  /**
   * Calls a tool as it was frozen in a published version. A failure of the tool itself is an output with `failed`.
   * @throws Problem without an answer, or if the definition is not to be called any more
   */
  readonly call: (scope: WorkspaceScope, source: PinnedSource, call: RemoteToolCall) => Promise<ToolOutput>
}

/** A call of a tool as it was frozen. */
interface RemoteToolCall {
  readonly definition: FrozenDefinition
  readonly args: Readonly<Record<string, unknown>>
  readonly waiting: Waiting
}

/** How a call waits for its server. */
export interface Waiting {
  /** Aborts after `timeoutMs`. */
  readonly signal: AbortSignal
  readonly timeoutMs: number
  /** The client wants progress; the server may report none. */
  readonly onProgress?: (progress: Progress) => void
}
