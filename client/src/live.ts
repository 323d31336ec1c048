/** A list that keeps itself up to date: read once, then changed by what the server tells (docs/events.md, "Live queries"). */

import { TenonError } from './errors.ts'
import { type Frame, frames, isFinal, RETRY_MS, type StreamState } from './streams.ts'
import { pause, pauseAfter, readJson, type Transport } from './transport.ts'
import { toUrlFilter } from './url-filter.ts'
import { filterOf, type Page, type Wanted } from './wanted.ts'

export interface LiveOptions {
  /** Documents that the list may have. Default: 1,000. With more it ends with an error: narrow its filter. */
  readonly max?: number
  readonly signal?: AbortSignal
  /** Milliseconds without a heartbeat after which the list counts as stale. Default: 35,000. */
  readonly silenceMs?: number
}

/** The state of a live list, and its present documents. */
export interface LiveSnapshot<D> {
  readonly state: StreamState
  /** In the order of the query; oldest first without one. */
  readonly documents: readonly D[]
  /** Why the list has ended. */
  readonly error?: unknown
}

type Listener<D> = (snapshot: LiveSnapshot<D>) => void
type Shown = Record<string, unknown> & { readonly id: string }

/**
 * The documents of a query, now and after every change. It begins with the first subscriber and ends with the last one, or with
 * {@link close}. Listeners are called at most once a frame of the screen (in servers, once a turn of the event loop).
 * @example
 * const list = tenon.from('tasks').where({ status: 'open' }).order('due').live()
 * const stop = list.subscribe(({ documents, state }) => render(documents, state))
 */
export class LiveList<D> {
  readonly #transport: Transport
  readonly #name: string
  readonly #wanted: Wanted
  readonly #options: LiveOptions
  readonly #listeners = new Set<Listener<D>>()
  #documents = new Map<string, Shown>()
  #snapshot: LiveSnapshot<D> = { state: 'connecting', documents: [] }
  #running: AbortController | undefined
  #isScheduled = false

  constructor(transport: Transport, name: string, wanted: Wanted, options: LiveOptions) {
    if (Object.keys(wanted.expand).length > 0)
      throw new TypeError('A live query does not follow changes of other documents, so it has no `expand`.')
    this.#transport = transport
    this.#name = name
    this.#wanted = wanted
    this.#options = options
  }

  /** The present documents; the same object until something changes. */
  get snapshot(): LiveSnapshot<D> {
    return this.#snapshot
  }

  /** Calls the listener with the present snapshot, and after each change. @returns a function that ends it */
  subscribe(listener: Listener<D>): () => void {
    this.#listeners.add(listener)
    if (this.#running === undefined) void this.#run()
    else listener(this.#snapshot)
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.close()
    }
  }

  close(): void {
    this.#running?.abort()
  }

  async #run(): Promise<void> {
    const running = new AbortController()
    this.#running = running
    this.#snapshot = { state: 'connecting', documents: this.#snapshot.documents }
    const { signal } = this.#options
    const any = signal === undefined ? running.signal : AbortSignal.any([signal, running.signal])
    try {
      for (let failures = 0; ; ) {
        const isRead = await this.#follow(any)
        failures = isRead ? 0 : failures + 1
        if (this.#snapshot.state === 'live') this.#change({ state: 'stale' })
        if (!isRead) await pause(pauseAfter(failures, RETRY_MS), any)
      }
    } catch (error) {
      this.#running = undefined
      this.#change({ state: 'ended', ...(!any.aborted && { error }) })
    }
  }

  /** Reads the list and follows its changes until they have a gap. @returns false if the server does not answer at present */
  async #follow(signal: AbortSignal): Promise<boolean> {
    const read = await this.#read(signal).catch((error: unknown) => {
      if (
        signal.aborted ||
        !(error instanceof TenonError) ||
        isFinal(error) ||
        error.code === 'output_too_large'
      )
        throw error
    })
    if (read === undefined) return false
    const { documents, position } = read
    this.#documents = documents
    this.#change({})
    const { silenceMs } = this.#options
    const following = frames(this.#transport, this.#path('subscribe'), {
      ...{ signal, lastEventId: position },
      ...(silenceMs !== undefined && { silenceMs }),
      onState: (state) => {
        if (state !== 'ended' && state !== 'connecting') this.#change({ state })
      },
    })
    for await (const frame of following) if (this.#apply(frame)) return true
    return true
  }

  /** @returns true if the list has to be read again */
  #apply({ event, data }: Frame): boolean {
    const { id = '', document } = Object(data) as { id?: string; document?: Shown }
    if (event === 'gap') return true
    if (event === 'end') return Object(data).code === 'collection_reset'
    if ((event === 'enter' || event === 'update') && document !== undefined) this.#documents.set(id, document)
    else if (event === 'leave' || event === 'delete') this.#documents.delete(id)
    else return false
    this.#checkSize(this.#documents)
    this.#change({})
    return false
  }

  /** @throws TenonError `output_too_large` */
  #checkSize({ size }: ReadonlyMap<string, Shown>): void {
    const { max = 1_000 } = this.#options
    if (size > max) throw tooMany(this.#name, max)
  }

  /** All pages; the position of the first one comes before them all. */
  async #read(signal: AbortSignal): Promise<{ documents: Map<string, Shown>; position: string }> {
    const documents = new Map<string, Shown>()
    let position = ''
    for (let after = ''; ; ) {
      const place = after === '' ? 'page[position]=true' : `page[after]=${encodeURIComponent(after)}`
      const path = `${this.#path('documents')}&page[size]=200&${place}`
      const sent = { method: 'GET', path, isRepeatable: true }
      const { data, page } = (await this.#transport.send(sent, { signal }, readJson)) as Page<Shown>
      position = page.position ?? position
      for (const document of data) documents.set(document.id, document)
      this.#checkSize(documents)
      if (page.next === null) return { documents, position }
      after = page.next
    }
  }

  #path(verb: 'documents' | 'subscribe'): string {
    const { select, sort } = this.#wanted
    const filter = toUrlFilter(filterOf(this.#wanted))
    const fields = select.length === 0 ? [] : [...new Set([...select, ...sort.map(nameOf)])]
    const query = new URLSearchParams({
      ...(filter !== undefined && { and: filter }),
      ...(fields.length > 0 && { select: fields.join() }),
    })
    return `/v1/collections/${encodeURIComponent(this.#name)}/${verb}?${query}`
  }

  #change(more: Partial<LiveSnapshot<D>>): void {
    this.#snapshot = { ...this.#snapshot, ...more }
    if (this.#isScheduled) return
    this.#isScheduled = true
    nextFrame(() => {
      this.#isScheduled = false
      const documents = [...this.#documents.values()].sort(comparison(this.#wanted.sort)) as unknown as D[]
      this.#snapshot = { ...this.#snapshot, documents }
      for (const listener of this.#listeners) listener(this.#snapshot)
    })
  }
}

const tooMany = (name: string, max: number): TenonError =>
  new TenonError({
    ...{ code: 'output_too_large', status: 0 },
    detail: `More than ${max} documents of ${name} match the live query.`,
    hint: 'Narrow its filter, or pass a larger `max`.',
  })

/** A hidden tab paints nothing, so it has no frames to wait for. */
function nextFrame(work: () => void): void {
  const { requestAnimationFrame, document } = globalThis as unknown as {
    requestAnimationFrame?: (work: () => void) => void
    document?: { readonly hidden: boolean }
  }
  if (requestAnimationFrame === undefined || document?.hidden === true) setTimeout(work)
  else requestAnimationFrame(work)
}

const nameOf = (key: string): string => key.slice(0, key.lastIndexOf('.'))

type Compare = (a: Shown, b: Shown) => number

/** The order of the server for texts, numbers and booleans: by code point, null and missing last, then by `id`. */
function comparison(sort: readonly string[]): Compare {
  const keys = sort.map((key) => ({ path: nameOf(key).split('.'), sign: key.endsWith('.desc') ? -1 : 1 }))
  return (a, b) => {
    for (const { path, sign } of keys) {
      const order = compare(valueAt(a, path), valueAt(b, path))
      if (order !== 0) return order * sign
    }
    return a.id < b.id ? -1 : 1
  }
}

const valueAt = (document: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((value, name) => Object(value)[name] ?? null, document)

const RANKS: readonly string[] = ['string', 'number', 'boolean', 'object']

/** Descending order is the reverse, so null and missing come first then, as on the server. */
function compare(a: unknown, b: unknown): number {
  if (a === b) return 0
  if (a === null) return 1
  if (b === null) return -1
  if (typeof a === 'string' && typeof b === 'string') return compareTexts(a, b)
  if (typeof a !== typeof b) return RANKS.indexOf(typeof a) - RANKS.indexOf(typeof b)
  return Number(a) - Number(b) || 0
}

/** By code point, which UTF-16 units are not for characters beyond U+FFFF. */
function compareTexts(a: string, b: string): number {
  for (let at = 0; ; at++) {
    const [one, other] = [a.codePointAt(at) ?? -1, b.codePointAt(at) ?? -1]
    if (one !== other) return one - other
    if (one > 0xffff) at += 1
  }
}
