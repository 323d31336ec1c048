/**
 * Notifications for a client of a hosted server that listens (`subscriptions/listen`): of another version of the server, and
 * of changes of the documents and objects that it names. The stream ends when the token would not open it any more.
 */

import type { PublishedServer } from '../../access/authentication/mcp-server-registry.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import { findPublished } from '../../features/mcp-servers/manifest.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { type WatchedThing, watchResources } from '../../features/mcp-servers/watch-resources.ts'
import type { McpChange, McpChanges } from '../protocol/mcp-server.ts'
import { type Readers, thingOf, thingReaders } from './hosted-content.ts'

export interface Listening {
  readonly scope: WorkspaceScope
  readonly server: PublishedServer
  /** Of the version that the server has now. */
  readonly tools: readonly Tool[]
  /** True if the client may call a tool. */
  readonly isGranted: (tool: Tool) => boolean
  /** The server as it is now. @throws Problem if the token does not admit its client any more */
  readonly recheck: () => Promise<PublishedServer>
  readonly onError: (error: unknown) => void
  /** Ends the stream. */
  readonly end: () => void
}

/** The lists of a server, which change with its version. */
export const LISTS = ['tools', 'prompts', 'resources'] as const

/** Watches a server for one client. */
export class ServerChanges {
  readonly #listening: Listening
  readonly #onChange: (change: McpChange) => void
  readonly #timer: NodeJS.Timeout
  #version: number
  #readers: Readers
  #things: Promise<() => void> = Promise.resolve(() => {})

  constructor(listening: Listening, onChange: (change: McpChange) => void) {
    this.#listening = listening
    this.#onChange = onChange
    this.#version = listening.server.version
    this.#readers = thingReaders(listening.tools, listening.isGranted)
    this.#timer = setInterval(() => {
      this.#check().catch((error: unknown) => {
        // A check that fails on the server is no refusal.
        if (error instanceof Problem && error.status < 500) listening.end()
        else listening.onError(error)
      })
    }, MCP_LIMITS.listenCheckMs)
  }

  /** The version that the client knows, or has been told of. */
  get version(): number {
    return this.#version
  }

  /** Watches these resources in place of those before. Only documents and objects that the client may read are watched. */
  watch(uris: readonly string[]): void {
    this.#stopThings()
    const { scope, onError, end } = this.#listening
    const isReadable = ({ kind, within }: WatchedThing) => this.#readers[kind].has(within)
    const watched = uris.flatMap((uri) => {
      const thing = thingOf(uri)
      return thing !== undefined && isReadable(thing) ? [{ uri, ...thing }] : []
    })
    const onThing = (thing: WatchedResource) => {
      if (isReadable(thing)) this.#onChange({ uri: thing.uri })
    }
    this.#things = watchAll(scope, watched, { onThing, end })
    this.#things.catch((error: unknown) => {
      onError(error)
      end()
    })
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#stopThings()
  }

  #stopThings(): void {
    // One that failed has ended the stream already.
    this.#things.then((stop) => stop()).catch(() => {})
  }

  async #check(): Promise<void> {
    const { scope, server, isGranted, recheck } = this.#listening
    const { version } = await recheck()
    if (version === this.#version) return
    const { tools } = (await findPublished(scope, server.id, version)).manifest
    this.#version = version
    this.#readers = thingReaders(tools, isGranted)
    for (const list of LISTS) this.#onChange(list)
  }
}

export const changesOf = (listening: Listening): McpChanges => ({
  listen: (uris, onChange) => {
    const changes = new ServerChanges(listening, onChange)
    changes.watch(uris)
    return () => changes.stop()
  },
})

interface WatchedResource extends WatchedThing {
  readonly uri: string
}

const nameOf = ({ kind, within, id }: WatchedThing) => `${kind}:${within}/${id}`

async function watchAll(
  scope: WorkspaceScope,
  watched: readonly WatchedResource[],
  { onThing, end }: { readonly onThing: (thing: WatchedResource) => void; readonly end: () => void },
): Promise<() => void> {
  if (watched.length === 0) return () => {}
  const byName = Map.groupBy(watched, nameOf)
  return watchResources(scope, {
    things: watched,
    onChange: (changed) => byName.get(nameOf(changed))?.forEach(onThing),
    onEnd: end,
  })
}

/** @throws Problem `validation_failed` for more subscriptions than one stream has */
export function checkSubscriptions(params: unknown): void {
  const { notifications } = Object(params) as { notifications?: { resourceSubscriptions?: unknown } }
  const uris = notifications?.resourceSubscriptions
  if (!Array.isArray(uris)) return
  const collections = new Set(uris.map((uri) => thingOf(String(uri))?.within))
  const { subscriptionsMax: max, subscribedCollectionsMax: collectionsMax } = MCP_LIMITS
  if (uris.length <= max && collections.size <= collectionsMax) return
  const detail = `A stream has at most ${max} resources, of at most ${collectionsMax} collections and buckets.`
  throw new Problem('validation_failed', { detail })
}
