/** Watches documents and objects by their change events, for clients that subscribe to them as resources. */

import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { Feed } from '../../core/bytes.ts'
import { subscribeEvents } from '../events/events-api.ts'

const asService = privilege('mcp.watches')

/** A document of a collection, or an object of the bucket. */
export interface WatchedThing {
  readonly kind: 'document' | 'object'
  /** The collection, or the bucket. */
  readonly within: string
  /** The id of the document, or the key of the object. */
  readonly id: string
}

interface WatchOptions {
  readonly things: readonly WatchedThing[]
  /** Called for each change of one of them, and of others beside them. */
  readonly onChange: (changed: WatchedThing) => void
  /** Called if the stream of changes ends. */
  readonly onEnd: () => void
}

/** @returns a function that stops watching. @throws Problem `dependency_unavailable` */
export async function watchResources(
  scope: WorkspaceScope,
  { things, onChange, onEnd }: WatchOptions,
): Promise<() => void> {
  const topics = new Set(
    things.map(({ kind, within }) => (kind === 'document' ? `collections.${within}.*` : 'objects.*')),
  )
  const feed = (await subscribeEvents.run(asService(scope), { topic: [...topics].join(',') })) as Feed
  return feed.open({
    send: (frame) => {
      const change = changeIn(frame)
      if (change !== undefined) onChange(change)
      return true
    },
    drained: async () => {},
    end: onEnd,
  })
}

interface ChangeFrame {
  readonly topic?: string
  readonly data?: { readonly id?: string; readonly bucket?: string; readonly key?: string }
}

/** The change in a frame of the feed; undefined for other frames. */
function changeIn(frame: string): WatchedThing | undefined {
  const at = frame.indexOf('data: ')
  if (at < 0 || frame.startsWith('retry:')) return undefined
  const { topic, data = {} } = JSON.parse(frame.slice(at + 'data: '.length)) as ChangeFrame
  const { id, bucket, key } = data
  const [area, collection] = topic?.split('.') ?? []
  if (area === 'objects')
    return bucket === undefined || key === undefined ? undefined : { kind: 'object', within: bucket, id: key }
  return collection === undefined || id === undefined
    ? undefined
    : { kind: 'document', within: collection, id }
}
