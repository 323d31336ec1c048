/** The publisher and the subscribers of the kill drill: every acknowledged event is heard, in order, if more than once then with its id. */

import { setTimeout as pause } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { eventually } from '../../support/fixtures/tenants.ts'
import type { Drill } from './drill.ts'
import type { Ledger } from './writers.ts'

const PUBLISH_EVERY_MS = 100
const RECONNECT_MS = 200
const HEARD_WITHIN_MS = 120_000

/** Publishes numbers, until the drill is over. @returns those that were acknowledged */
export async function publishNumbers(drill: Drill): Promise<number[]> {
  const acknowledged: number[] = []
  for (let n = 0; !drill.isOver; n++) {
    const reply = await drill.answered('POST', '/v1/events/publish', {
      key: `publish-${n}`,
      body: { topic: 'drill.numbers', data: { n } },
    })
    if (drill.expect(reply, [200, 201, 202], `publish ${n}`)) acknowledged.push(n)
    await pause(PUBLISH_EVERY_MS)
  }
  drill.count('events published', acknowledged.length)
  return acknowledged
}

interface Heard {
  readonly topic: string
  // biome-ignore lint/suspicious/noExplicitAny: data of every shape
  readonly data: any
}

/** Reads a stream, and connects again with the last id when it ends. */
export class Subscriber {
  /** In the order of arrival, each once. */
  readonly heard: Heard[] = []
  readonly #drill: Drill
  readonly #topics: string
  readonly #ids = new Set<string>()
  readonly #closing = new AbortController()
  #lastId = '0-0'

  constructor(drill: Drill, topics: string, positions: string) {
    this.#drill = drill
    this.#topics = topics
    this.#lastId = positions
  }

  async run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      await this.#read().catch(() => {})
      this.#drill.count('connections of subscribers')
      await pause(RECONNECT_MS)
    }
  }

  close(): void {
    this.#closing.abort()
  }

  async #read(): Promise<void> {
    const sentMs = performance.now()
    const response = await fetch(`${this.#drill.at.url}/v1/events/subscribe?topic=${this.#topics}`, {
      headers: { ...this.#drill.workspace.service, 'last-event-id': this.#lastId },
      signal: this.#closing.signal,
    }).catch(() => undefined)
    if (this.#closing.signal.aborted) return
    this.#drill.note(sentMs, response?.ok ? undefined : `${response?.status ?? 0} of a stream`)
    if (!response?.ok || response.body === null) return
    const frames = response.body
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream())
    for await (const { id, event, data } of frames) {
      if (event === 'gap') this.#drill.find(`gap on ${this.#topics} after ${this.#lastId}: ${data}`)
      if (id !== undefined) this.#lastId = id
      if (event === undefined) this.#note(JSON.parse(data))
    }
  }

  #note(event: Heard & { readonly id: string }): void {
    if (this.#ids.has(event.id)) this.#drill.count('events heard again')
    else this.heard.push({ topic: event.topic, data: event.data })
    this.#ids.add(event.id)
  }
}

/** Waits until every acknowledged number was heard; each once under an id of its own. */
export async function compareNumbers(
  drill: Drill,
  subscriber: Subscriber,
  numbers: readonly number[],
): Promise<void> {
  const missing = () => {
    const heard = new Set(subscriber.heard.map(({ data }) => data.n))
    return numbers.filter((n) => !heard.has(n))
  }
  await eventually(async () => missing().length === 0 || undefined, HEARD_WITHIN_MS).catch(() => {
    drill.find(`published and never heard: ${missing().join(' ')}`, 'lost')
  })
  const once = new Set<number>()
  let last = -1
  for (const { n } of subscriber.heard.map(({ data }) => data as { n: number })) {
    if (once.has(n)) drill.find(`number ${n} was published once, and heard under two ids`, 'doubled')
    else if (n < last) drill.find(`number ${n} was heard after ${last}`)
    once.add(n)
    last = Math.max(last, n)
  }
}

interface Change {
  readonly id: string
  readonly version: number
}

/** Waits until every version of every document was heard, and checks that those of a document came in order. */
export async function compareChanges(drill: Drill, subscriber: Subscriber, ledger: Ledger): Promise<void> {
  const expected = [
    ...[...ledger.documents].flatMap(([id, { version }]) => versionsOf(id, version)),
    ...[...ledger.deleted].flatMap(([id, version]) => [...versionsOf(id, version), `${id} deleted`]),
    ...versionsOf(ledger.counterId, ledger.increments + 1),
  ]
  const changes = () =>
    subscriber.heard.filter(({ topic }) => topic.startsWith(`collections.${ledger.collection}.`))
  const missing = () => {
    const heard = new Set(
      changes().map(({ topic, data }) =>
        topic.endsWith('.deleted') ? `${data.id} deleted` : `${data.id} ${data.version}`,
      ),
    )
    return expected.filter((one) => !heard.has(one))
  }
  await eventually(async () => missing().length === 0 || undefined, HEARD_WITHIN_MS).catch(() => {
    drill.find(
      `changes of ${ledger.collection} never heard: ${missing().slice(0, 20).join(', ')} (${missing().length} in all)`,
      'lost',
    )
  })
  drill.count('changes heard', changes().length)
  if (changes().length !== expected.length)
    drill.find(
      `${ledger.collection}: ${expected.length} changes were acknowledged, ${changes().length} ids heard`,
    )
  const last = new Map<string, number>()
  for (const { topic, data } of changes() as { topic: string; data: Change }[]) {
    const before = last.get(data.id) ?? 0
    // A deletion has the version that it deleted.
    const isNext = topic.endsWith('.deleted') ? data.version === before : data.version === before + 1
    if (!isNext) drill.find(`${data.id}: ${topic} of version ${data.version} after ${before}`)
    last.set(data.id, data.version)
  }
}

const versionsOf = (id: string, last: number): string[] =>
  Array.from({ length: last }, (_, n) => `${id} ${n + 1}`)
