/**
 * Notifications for a client of a hosted server that listens (`subscriptions/listen`): of another version of the server, and
 * of changes of the documents that it names. The stream ends when the token would not open it any more.
 */

import type { PublishedServer } from '../../access/authentication/mcp-server-registry.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { findPublished } from '../../features/mcp-servers/manifest.ts'
import type { Tool } from '../../features/mcp-servers/tool.ts'
import { watchDocuments } from '../../features/mcp-servers/watch-documents.ts'
import type { McpChanges } from '../protocol/mcp-server.ts'
import { documentOf, documentReaders } from './hosted-content.ts'

interface Listening {
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

export function changesOf(listening: Listening): McpChanges {
  const { scope, server, tools, isGranted, recheck, onError, end } = listening
  return {
    listen: (uris, onChange) => {
      let readers = documentReaders(tools, isGranted)
      const watched = uris.flatMap((uri) => {
        const document = documentOf(uri)
        return document !== undefined && readers.has(document.collection) ? [{ uri, ...document }] : []
      })
      const onDocument = ({ uri, collection }: WatchedDocument) => {
        if (readers.has(collection)) onChange({ uri })
      }
      const documents = watchAll(scope, watched, { onDocument, end })
      documents.catch((error: unknown) => {
        onError(error)
        end()
      })
      let version = server.version
      const check = async () => {
        const now = await recheck()
        if (now.version === version) return
        version = now.version
        readers = documentReaders((await findPublished(scope, server.id, version)).manifest.tools, isGranted)
        for (const list of ['tools', 'prompts', 'resources'] as const) onChange(list)
      }
      const timer = setInterval(() => {
        check().catch((error: unknown) => {
          // A check that fails on the server is no refusal.
          if (error instanceof Problem && error.status < 500) end()
          else onError(error)
        })
      }, LIMITS.mcpListenCheckMs)
      return () => {
        clearInterval(timer)
        documents.then((stop) => stop()).catch(() => {})
      }
    },
  }
}

interface WatchedDocument {
  readonly uri: string
  readonly collection: string
  readonly id: string
}

async function watchAll(
  scope: WorkspaceScope,
  watched: readonly WatchedDocument[],
  { onDocument, end }: { readonly onDocument: (document: WatchedDocument) => void; readonly end: () => void },
): Promise<() => void> {
  if (watched.length === 0) return () => {}
  const byPath = new Map(watched.map((one) => [`${one.collection}/${one.id}`, one]))
  return watchDocuments(scope, {
    collections: [...new Set(watched.map(({ collection }) => collection))],
    onChange: (collection, id) => {
      const document = byPath.get(`${collection}/${id}`)
      if (document !== undefined) onDocument(document)
    },
    onEnd: end,
  })
}

/** @throws Problem `validation_failed` for more subscriptions than one stream has */
export function checkSubscriptions(params: unknown): void {
  const { notifications } = Object(params) as { notifications?: { resourceSubscriptions?: unknown } }
  const uris = notifications?.resourceSubscriptions
  if (!Array.isArray(uris)) return
  const collections = new Set(uris.map((uri) => documentOf(String(uri))?.collection))
  const { mcpSubscriptionsMax: max, mcpSubscribedCollectionsMax: collectionsMax } = LIMITS
  if (uris.length <= max && collections.size <= collectionsMax) return
  const detail = `A stream has at most ${max} resources, of at most ${collectionsMax} collections.`
  throw new Problem('validation_failed', { detail })
}
