/** Compares queries that an index serves in a collection of 100,000 documents with the same in one of a million (`DOCUMENTS`). */

import type { Started } from '../../test/support/stack/start.ts'
import type { TestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { interleaved, print, sized } from '../measure.ts'
import { loadRelated } from './related-documents.ts'

const SMALL = sized(100_000, 2_000)
const LARGE = sized(Number(process.env['DOCUMENTS'] ?? 1_000_000), 4_000)
const ROUNDS = 150
/** A range of the indexed field, which has as many orders in both. */
const RANGE = sized(5_000, 100)

/** The part of the path behind `/v1/collections/`. @param items of the workspace; @param id of an order */
const queriesOf = (items: number, id: string) => {
  const from = items / 20
  const some = `amount=gte.${from}&order=amount&page[size]=20`
  const range = `amount=gte.${from}&amount=lt.${from + RANGE}`
  return {
    'get an order': `orders/documents/${id}`,
    'page of 20 orders by amount': `orders/documents?${some}`,
    'filter by an index and a field': `orders/documents?${some}&status=eq.paid`,
    'orders of customers with a plan': `orders/documents?${some}&customer.plan=eq.pro`,
    'expand customer and 5 items': `orders/documents?${some}&expand=customer(name),items(position,price;order=position;size=5)`,
    [`count ${RANGE} orders`]: `orders/documents?${range}&order=amount&page[size]=1&count=exact`,
    [`sum ${RANGE} orders by status`]: `orders/aggregate?select=status,n:count(),total:amount.sum()&${range}`,
    'best 20 of 100 notes by a word': 'notes/documents?_search=wfts.topic7&order=_score.desc&page[size]=20',
    '20 of 100 notes by a word': 'notes/documents?_search=wfts.topic7&order=id&page[size]=20',
  }
}

/** Prints all results; takes about ten minutes, most of them to load the documents. */
export async function sizes({ running }: Started): Promise<void> {
  const small = await loadRelated(running, { items: SMALL, schema: 'small' })
  const large = await loadRelated(running, { items: LARGE, schema: 'large' })
  const [ofSmall, ofLarge] = [await worksOf(small, SMALL), await worksOf(large, LARGE)]
  print('', `${SMALL}, ms`, `${LARGE}, ms`, '×')
  for (const [title, work] of Object.entries(ofSmall)) {
    const other = ofLarge[title]
    if (other === undefined) throw new Error(`${title} is missing`)
    const figures = await interleaved(ROUNDS, { small: work, large: other })
    print(title, figures.small.p50Ms, figures.large.p50Ms, figures.large.p50Ms / figures.small.p50Ms)
  }
}

async function worksOf({ url, apikey }: TestWorkspace, items: number) {
  const send = sender(url, { apikey }, 1)
  const first = await send('GET', `/v1/collections/orders/documents?amount=eq.${items / 20}`)
  const [{ id }] = JSON.parse(first).data
  const queries = Object.entries(queriesOf(items, id))
  return Object.fromEntries(
    queries.map(([title, path]) => [title, () => send('GET', `/v1/collections/${path}`)]),
  )
}
