/** Watches documents of collections by their change events, for clients that subscribe to them as resources. */

import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { Feed } from '../../core/bytes.ts'
import { subscribeEvents } from '../events/events-api.ts'

const asService = privilege('mcp.watches')

interface WatchOptions {
  readonly collections: readonly string[]
  /** Called for each change of a document of the collections. */
  readonly onChange: (collection: string, documentId: string) => void
  /** Called if the stream of changes ends. */
  readonly onEnd: () => void
}

/** @returns a function that stops watching. @throws Problem `dependency_unavailable` */
export async function watchDocuments(
  scope: WorkspaceScope,
  { collections, onChange, onEnd }: WatchOptions,
): Promise<() => void> {
  const topic = collections.map((name) => `collections.${name}.*`).join(',')
  const feed = (await subscribeEvents.run(asService(scope), { topic })) as Feed
  return feed.open({
    send: (frame) => {
      const change = changeIn(frame)
      if (change !== undefined) onChange(change.collection, change.id)
      return true
    },
    drained: async () => {},
    end: onEnd,
  })
}

/** The change in a frame of the feed; undefined for other frames. */
function changeIn(frame: string): { collection: string; id: string } | undefined {
  const at = frame.indexOf('data: ')
  if (at < 0 || frame.startsWith('retry:')) return undefined
  const { topic, data } = JSON.parse(frame.slice(at + 'data: '.length)) as {
    topic?: string
    data?: { id?: string }
  }
  const [, collection] = topic?.split('.') ?? []
  return collection === undefined || data?.id === undefined ? undefined : { collection, id: data.id }
}
