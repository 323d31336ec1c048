/** Server-sent events as they come in a reply: each frame once it is whole. */

export interface Frame {
  readonly id: string | undefined
  readonly event: string | undefined
  /** As it was sent: JSON. */
  readonly data: string
}

/** @throws what the connection breaks with */
export async function* framesOf(response: Response): AsyncGenerator<Frame> {
  let rest = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const texts = (rest + chunk).split('\n\n')
    rest = texts.pop() ?? ''
    for (const text of texts) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(text)?.[1]
      const data = field('data')
      // Without data it is a heartbeat.
      if (data !== undefined) yield { id: field('id'), event: field('event'), data }
    }
  }
}
