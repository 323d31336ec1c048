/** Starts the server of an image for one call, in the share of its workspace, and ends it after the call. */

import { randomUUID } from 'node:crypto'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Config } from '../../../infra/config.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'
import type { Log } from '../../../infra/log.ts'
import { MCP_LIMITS } from '../limits.ts'
import { forgetConnection, type Peer } from '../remote/mcp/mcp-client.ts'
import { isDevelopment } from './image-settings.ts'
import { OciRuntime } from './oci-runtime.ts'
import type { ImageRuntime, RunningServer, ServerStart } from './runtime.ts'
import { StdioConversation } from './stdio-post.ts'
import { StdioRuntime } from './stdio-runtime.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly imageServers: ImageServers
  }
}

const imageServers = privilege('mcp.images')

export const imageServersOf = (scope: WorkspaceScope): ImageServers => imageServers(scope)

export class ImageServers {
  readonly #containers: ImageRuntime | undefined
  readonly #development: ImageRuntime
  readonly #ofWorkspace = new KeyedSemaphore(MCP_LIMITS.images.ofWorkspaceMax, MCP_LIMITS.images.waitMs)
  readonly #ofProcess = new KeyedSemaphore(MCP_LIMITS.images.ofProcessMax, MCP_LIMITS.images.waitMs)
  readonly #stopping = new Set<Promise<void>>()

  constructor({ TENON_CONTAINER_ENGINE: engine, TENON_DEV_STDIO_SERVERS: servers }: Config, log: Log) {
    this.#containers = engine === undefined ? undefined : new OciRuntime(engine, log)
    this.#development = new StdioRuntime(servers)
  }

  /** @throws Problem if the image cannot be run: `containers_unavailable`, `validation_failed` */
  async check(image: string): Promise<void> {
    await this.#runtimeOf(image).check(image)
  }

  /**
   * Has a server of its own for the work: no call sees what another one has left, and none of a tenant that of another.
   * @param signal ends the work with its reason
   * @throws Problem `containers_unavailable`; `overloaded` if too many run; and what the work throws
   */
  async use<T>(start: ServerStart, signal: AbortSignal, work: (peer: Peer) => Promise<T>): Promise<T> {
    const runtime = this.#runtimeOf(start.image)
    const release = await this.#acquire(start.owner)
    const conversation = new StdioConversation()
    const owner = `image:${randomUUID()}`
    const abort = () => conversation.fail(signal.reason)
    let server: RunningServer | undefined
    try {
      signal.throwIfAborted()
      server = await runtime.start(start, conversation)
      conversation.connect(server)
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
      return await work({ owner, post: conversation.post })
    } finally {
      signal.removeEventListener('abort', abort)
      conversation.fail(new Problem('upstream_unavailable'))
      forgetConnection(owner)
      this.#stop(server, release)
    }
  }

  /** Ends the servers that are still there. */
  async close(): Promise<void> {
    await Promise.all(this.#stopping)
  }

  /** The result need not wait for the end of the server, but the next call does. */
  #stop(server: RunningServer | undefined, release: () => void): void {
    if (server === undefined) {
      release()
      return
    }
    const stopped = server.stop().finally(() => {
      release()
      this.#stopping.delete(stopped)
    })
    this.#stopping.add(stopped)
  }

  async #acquire({ tenantId, workspaceId }: ServerStart['owner']): Promise<() => void> {
    const { ofWorkspaceMax: most } = MCP_LIMITS.images
    const detail = `${most} calls of images of this workspace are running.`
    const ofWorkspace = await this.#ofWorkspace.acquire(`${tenantId}:${workspaceId}`, detail)
    try {
      const ofProcess = await this.#ofProcess.acquire('all', 'Too many images are running.')
      return () => {
        ofProcess()
        ofWorkspace()
      }
    } catch (error) {
      ofWorkspace()
      throw error
    }
  }

  #runtimeOf(image: string): ImageRuntime {
    if (isDevelopment(image)) return this.#development
    if (this.#containers !== undefined) return this.#containers
    throw new Problem('containers_unavailable', {
      detail: 'This platform has no container engine, so it cannot run images.',
    })
  }
}
