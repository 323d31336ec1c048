/** A reply that goes on: frames that come until one side ends it. The HTTP door writes them as server-sent events. */

/** What a door offers to a feed. Frames are whole texts, made once for all who get them. */
export interface FeedSink {
  /** @returns whether the client has taken most of what was sent; else {@link taken} tells when the next may come */
  send(frame: string): boolean
  /** Resolves when the client has taken most of what was sent, or the feed has ended. */
  taken(): Promise<void>
  /** Ends the feed from our side; the code is told to the client. */
  end(code: 'slow_consumer' | 'unavailable' | 'ended'): void
}

export interface Feed {
  /** Begins to send. @returns how to stop; nothing is sent after that */
  open(sink: FeedSink): () => void
  /**
   * Asks again if the caller may hear it, for rights that are no part of the credential.
   * @throws Problem, with whose code the feed ends
   */
  readonly recheck?: () => Promise<void>
}

/** One server-sent event (HTML standard §9.2.6). Data is one line: JSON has no raw line breaks. */
export function frame(fields: { id?: string; event?: string; data: unknown }): string {
  const id = fields.id === undefined ? '' : `id: ${fields.id}\n`
  const event = fields.event === undefined ? '' : `event: ${fields.event}\n`
  return `${event}${id}data: ${JSON.stringify(fields.data)}\n\n`
}
