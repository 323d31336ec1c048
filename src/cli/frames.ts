/** Server-sent events as they come in a reply: each frame once it is whole. */

import { type EventSourceMessage, EventSourceParserStream } from 'eventsource-parser/stream'

/** @throws if the connection breaks */
export async function* framesOf(response: Response): AsyncGenerator<EventSourceMessage> {
  const texts = response.body?.pipeThrough(new TextDecoderStream())
  yield* texts?.pipeThrough(new EventSourceParserStream()) ?? []
}
