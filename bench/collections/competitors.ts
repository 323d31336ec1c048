/**
 * Sends the same requests to the platform, the limit server and PostgREST, each in its own syntax,
 * alternating between tenants.
 */

import { type Send, sender } from '../http.ts'
import { COLLECTION, DOCUMENT, type Place } from './documents.ts'
import type { Postgrest } from './postgrest.ts'

/** Maximum number of connections of each tenant to each competitor. */
export const CONNECTIONS = 64
const SIZE = 20

/** One request of each kind, and the requested page of the list. */
export interface Competitor {
  readonly insert: () => Promise<unknown>
  readonly get: () => Promise<unknown>
  readonly page: () => Promise<unknown>
  readonly update: () => Promise<unknown>
}

const CREATED = JSON.stringify(DOCUMENT)
/** Start of the measured page: in the middle of the open documents, by each competitor's cursor. */
const DEPTH = 50

/** @returns the items of a list one after the other, repeatedly */
function turns<T>(list: readonly T[]): () => T {
  let n = 0
  return () => list[n++ % list.length] as T
}

/** Access to one tenant's documents. */
interface Way {
  readonly send: Send
  readonly insert: string
  readonly one: (id: string) => string
  readonly page: string
  readonly ids: readonly string[]
}

function competitor(ways: readonly Way[], update: 'PUT' | 'PATCH'): Competitor {
  const next = turns(ways.map((way) => ({ ...way, id: turns(way.ids) })))
  let score = 0
  return {
    insert: () => {
      const { send, insert } = next()
      return send('POST', insert, CREATED)
    },
    get: () => {
      const { send, one, id } = next()
      return send('GET', one(id()))
    },
    page: () => {
      const { send, page } = next()
      return send('GET', page)
    },
    update: () => {
      const { send, one, id } = next()
      return send(update, one(id()), `{"score":${score++ % 10_000}}`)
    },
  }
}

/** All features on: key, role, row-level security, enforced schema. */
export async function ours(places: readonly Place[]): Promise<Competitor> {
  const base = `/v1/collections/${COLLECTION}/documents`
  const ways = places.map(async ({ url, apikey, ids }) => {
    const send = sender(url, { apikey }, CONNECTIONS)
    const page = await ourPage(send, DEPTH)
    return { send, insert: base, one: (id: string) => `${base}/${id}`, page, ids }
  })
  return competitor(await Promise.all(ways), 'PUT')
}

/** The path of the n-th page of 20. Larger pages lead there, since a cursor is valid for any page size. */
export async function ourPage(send: Send, n: number): Promise<string> {
  const path = `/v1/collections/${COLLECTION}/documents?status=eq.open&order=score.desc`
  let after = ''
  for (let skip = (n - 1) * SIZE; skip > 0; ) {
    const size = Math.min(skip, 200)
    const { page } = JSON.parse(await send('GET', `${path}&page[size]=${size}${after}`))
    after = `&page[after]=${page.next}`
    skip -= size
  }
  return `${path}&page[size]=${SIZE}${after}`
}

export async function limit(url: string, places: readonly Place[]): Promise<Competitor> {
  const ways = places.map(async ({ tenantId, workspaceId, ids }) => {
    const send = sender(url, {}, CONNECTIONS)
    const base = `/${tenantId}/${workspaceId}/documents`
    const { page } = JSON.parse(await send('GET', `${base}?status=open&size=${SIZE * (DEPTH - 1)}`))
    const path = `${base}?status=open&size=${SIZE}&after=${encodeURIComponent(page.next)}`
    return { send, insert: base, one: (id: string) => `${base}/${id}`, page: path, ids }
  })
  return competitor(await Promise.all(ways), 'PUT')
}

const SELECT = 'select=id,title,status,score,opened,extra,version,created_at,updated_at'

/** Whole documents are returned, and keyset pages, as ours are. */
export async function postgrest({ url, tokenOf }: Postgrest, places: readonly Place[]): Promise<Competitor> {
  const ways = places.map(async (place) => {
    const { tenantId: tenant_id, workspaceId: workspace_id } = place
    const authorization = `Bearer ${await tokenOf({ tenant_id, workspace_id })}`
    const send = sender(url, { authorization, prefer: 'return=representation' }, CONNECTIONS)
    const base = `/peer?${SELECT}`
    const list = `${base}&status=eq.open&order=score.desc,id.desc`
    const [last] = JSON.parse(await send('GET', `${list}&limit=1&offset=${SIZE * (DEPTH - 1) - 1}`))
    const { score, id } = last
    const page = `${list}&limit=${SIZE + 1}&or=(score.lt.${score},and(score.eq.${score},id.lt.${id}))`
    return { send, insert: base, one: (own: string) => `${base}&id=eq.${own}`, page, ids: place.ids }
  })
  return competitor(await Promise.all(ways), 'PATCH')
}
