/** Subscribers that count the events that they receive. */

export interface Subscribers {
  /** The next event that any of them receives. */
  next(): Promise<void>
  reached(count: number): Promise<void>
  count(): number
  stop(): void
}

/** Resolves when all of them are subscribed. */
export async function listen(
  url: string,
  apikey: string,
  topic: string,
  subscribers: number,
): Promise<Subscribers> {
  const controller = new AbortController()
  let count = 0
  let waiting: (() => void)[] = []
  const hear = async (body: ReadableStream<Uint8Array>, ready: () => void) => {
    const decoder = new TextDecoder()
    for await (const chunk of body) {
      const text = decoder.decode(chunk, { stream: true })
      if (text.includes('event: ready')) ready()
      const events = text.split('\nid: ').length - 1 + (text.startsWith('id: ') ? 1 : 0)
      if (events === 0) continue
      count += events
      for (const wake of waiting.splice(0)) wake()
    }
  }
  await Promise.all(
    Array.from({ length: subscribers }, async () => {
      const response = await fetch(`${url}/v1/events/subscribe?topic=${topic}`, {
        headers: { apikey },
        signal: controller.signal,
      })
      const { body } = response
      if (body === null) throw new Error(`subscribe answered ${response.status}`)
      await new Promise<void>((ready) => void hear(body, ready).catch(() => {}))
    }),
  )
  const next = () => new Promise<void>((done) => waiting.push(done))
  return {
    next,
    count: () => count,
    reached: async (wanted) => {
      while (count < wanted) await next()
    },
    stop: () => {
      waiting = []
      controller.abort()
    },
  }
}
