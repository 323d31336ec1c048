/** The result of a live query as a client keeps it: `enter` and `update` put a document, `leave` and `delete` remove it. */

import { type Caller, call, eventually } from '../fixtures/tenants.ts'
import type { Running } from '../stack/start.ts'
import { type ReceivedEvent, subscribeToStream } from './sse.ts'

type Doc = Readonly<Record<string, unknown>> & { readonly id: string }

/** The names of the frames that tell of documents. */
const CHANGES = ['enter', 'update', 'leave', 'delete']

export const changesIn = (received: readonly ReceivedEvent[]): readonly ReceivedEvent[] =>
  received.filter(({ event }) => event !== undefined && CHANGES.includes(event))

/** What a stream has told: the frame, and the field `n` of its document. */
export const toldIn = (received: readonly ReceivedEvent[]): string[] =>
  changesIn(received).map(({ event, data }) =>
    [event, data.document?.n].filter((part) => part !== undefined).join(' '),
  )

/** Reads the list whole, with the position of changes before its first page. */
export async function readList(as: Caller, path: string, query: string, at?: Running) {
  const documents = new Map<string, Doc>()
  let position = ''
  for (let after: string | null = ''; after !== null; ) {
    const more: string = after === '' ? '&page[position]=true' : `&page[after]=${after}`
    const { status, body } = await call('GET', `${path}/documents?${query}${more}`, { as, ...(at && { at }) })
    if (status !== 200) throw new Error(`${query}: ${JSON.stringify(body)}`)
    for (const document of body.data) documents.set(document.id, document)
    position ||= body.page.position
    after = body.page.next
  }
  return { documents, position }
}

/** The list, and the stream of what changes in it. */
export async function openLive(as: Caller, path: string, query = '') {
  const { documents, position } = await readList(as, path, query)
  const received = await subscribeToStream(as, `${path}/subscribe?${query}`, { 'last-event-id': position })
  const now = () => {
    const copy = new Map(documents)
    for (const { event, data } of changesIn(received))
      if (event === 'enter' || event === 'update') copy.set(data.id, data.document)
      else copy.delete(data.id)
    return copy
  }
  return { received, now, position }
}

export const sorted = (documents: ReadonlyMap<string, Doc>): readonly Doc[] =>
  [...documents.values()].sort((a, b) => (a.id < b.id ? -1 : 1))

/** Waits until the stream has told this of the last change. */
export const toldAtLast = (received: readonly ReceivedEvent[], told: string): Promise<true> =>
  eventually(async () => (toldIn(received).at(-1) === told ? true : undefined))
