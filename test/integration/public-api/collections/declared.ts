/** Helpers to declare and fill collections of a party, and to identify rows. */

import { expect } from 'vitest'
import { expectStatus, get, list, type Reply, str } from '../client.ts'
import type { Party } from '../tenant-pair.ts'

export type Row = Record<string, unknown>

/** Path of the documents of a collection. */
export function documents(collection: string): string {
  return `/v1/collections/${collection}/documents`
}

/** Declares a collection; returns the reply and expects 201. */
export async function declare(party: Party, collection: string, body: Row): Promise<Reply> {
  const reply = await party.admin.post('/v1/schemas', {
    workspace_id: party.workspace,
    collection,
    store: 'relational',
    mode: 'enforce',
    ...body,
  })
  expectStatus(reply, 201)
  return reply
}

/** Writes rows sequentially, so that their ids have the same order; returns the ids. */
export async function fill(party: Party, collection: string, rows: readonly Row[]): Promise<string[]> {
  const ids: string[] = []
  for (const row of rows) {
    const made = await party.service.post(documents(collection), { ...row, mark: party.mark })
    expectStatus(made, 201)
    ids.push(str(made, 'id'))
  }
  return ids
}

/** The `tag` of each row of a page, in order. */
export function tags(reply: Reply): unknown[] {
  expectStatus(reply, 200)
  return list(reply).map((row) => get(row, 'tag'))
}

/** A nullable type in JSON Schema. */
export function nullable(type: string, more: Row = {}): Row {
  return { type: [type, 'null'], ...more }
}

/** Follows `page.next` to the end and returns all tags; fails if a page is too long or the end never comes. */
export async function readAllPages(
  ask: (after: string) => Promise<Reply>,
  size: number,
  limit = 40,
): Promise<unknown[]> {
  const seen: unknown[] = []
  let after = ''
  for (let pages = 0; pages < limit; pages++) {
    const reply = await ask(after)
    seen.push(...tags(reply))
    expect(list(reply).length).toBeLessThanOrEqual(size)
    if (get(reply, 'page/has_more') !== true) {
      expect(get(reply, 'page/next')).toBeNull()
      return seen
    }
    after = str(reply, 'page/next')
  }
  throw new Error(`no last page after ${limit}`)
}

/** The three kinds of collection that have to behave the same. */
export const KINDS = ['relational', 'document', 'undeclared'] as const

/** Declares `collection` in that store, unless it stays undeclared. */
export async function declareKind(
  party: Party,
  kind: (typeof KINDS)[number],
  collection: string,
  properties: Row,
): Promise<void> {
  if (kind === 'undeclared') return
  const schema = { type: 'object', properties: { ...properties, mark: { type: 'string' } } }
  await declare(party, collection, { store: kind, schema })
}
