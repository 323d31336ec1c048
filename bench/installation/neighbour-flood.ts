/** A thread that floods the platform as one tenant until it is told to stop, and then posts what it has got. */

import { setTimeout as pause } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { LostConnection, type Send, sender } from '../http.ts'
import { listen } from '../subscribers.ts'

export type FloodName = 'inserts' | 'burn' | 'streams' | 'queries' | 'starts'

export interface Flood {
  readonly name: FloodName
  readonly url: string
  readonly apikey: string
}

export interface FloodCounts {
  readonly done: number
  /** By status. */
  readonly refused: Readonly<Record<string, number>>
}

/** A workspace may have nine tenths of its tenant's 200. */
const STREAMS = 180
/** Milliseconds until a refused lane asks again; it ignores `Retry-After`, as a careless client does. */
const REFUSED_MS = 100

const QUERY = `/v1/collections/notes/documents?${new URLSearchParams({
  or: '(name.ilike.*9*,text.ilike.*zzz*,n.gt.100)',
  order: 'text.desc,name.asc',
  count: 'exact',
})}`

interface Kind {
  readonly lanes: number
  readonly request: () => readonly [method: string, path: string, body?: string]
}

const KINDS: Readonly<Record<FloodName, Kind>> = {
  inserts: { lanes: 24, request: () => ['POST', '/v1/collections/loud/documents', '{"n":1}'] },
  burn: { lanes: 16, request: () => ['POST', '/v1/functions/loud/invoke', '{}'] },
  streams: {
    lanes: 4,
    request: () => ['POST', '/v1/events/publish', `{"topic":"loud","data":"${'x'.repeat(200)}"}`],
  },
  queries: { lanes: 16, request: () => ['GET', QUERY] },
  starts: {
    lanes: 16,
    request: () => ['POST', '/v1/flows/loud/executions', '{}'],
  },
}

const flood = workerData as Flood
const refused: Record<string, number> = {}
let done = 0
let isStopped = false

async function lane(send: Send, { request }: Kind): Promise<void> {
  while (!isStopped) {
    try {
      await send(...request())
      done += 1
    } catch (error) {
      const status = error instanceof LostConnection ? 'lost' : (error as Error).message.slice(0, 3)
      refused[status] = (refused[status] ?? 0) + 1
      await pause(REFUSED_MS)
    }
  }
}

const { name, url, apikey } = flood
const kind = KINDS[name]
const send = sender(url, { apikey }, kind.lanes)
const streams = name === 'streams' ? await listen(url, apikey, 'loud', STREAMS) : undefined
const lanes = Array.from({ length: kind.lanes }, () => lane(send, kind))
parentPort?.once('message', () => {
  isStopped = true
  void Promise.all(lanes).then(() => {
    streams?.stop()
    parentPort?.postMessage({ kind: 'counts', value: { done, refused } })
  })
})
parentPort?.postMessage({ kind: 'flooding' })
