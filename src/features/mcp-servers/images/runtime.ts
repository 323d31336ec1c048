/** The interface of runtimes of MCP servers that are container images: each starts one server for one call. */

import type { Problem } from '../../../core/problem.ts'
import type { ImageLimits } from './image-settings.ts'

export interface ServerStart {
  /** Reference with a digest; `dev:<name>` for a server of the operator. */
  readonly image: string
  readonly commandArgs: readonly string[]
  /** Variables with their values, which may be secret: each is one line. */
  readonly env: Readonly<Record<string, string>>
  readonly limits: ImageLimits
  readonly owner: { readonly tenantId: string; readonly workspaceId: string; readonly source: string }
}

export interface ServerListener {
  /** @param line one message: JSON without line breaks, not checked */
  readonly onMessage: (line: string) => void
  /** The server has ended by itself, or was stopped because of its output. Not called after `stop`. */
  readonly onEnd: (problem: Problem) => void
}

/** A running server. It speaks MCP over its standard input and output (specification, "stdio"). */
export interface RunningServer {
  /** @param message JSON without line breaks */
  readonly send: (message: string) => void
  /** Ends the server with all its processes. Resolves when it is gone; never rejects. */
  readonly stop: () => Promise<void>
}

export interface ImageRuntime {
  /** @throws Problem if the image cannot be run here, which calls need not check again */
  readonly check: (image: string) => Promise<void>
  /** @throws Problem `containers_unavailable` if nothing could be started */
  readonly start: (start: ServerStart, listener: ServerListener) => Promise<RunningServer>
}
