/**
 * A suite of the typed client that Node runs, and in one file Deno and Chromium (test/integration/client/runtimes.test.ts). It uses
 * nothing but the client and what all runtimes have.
 */

import { createClient, type LiveSnapshot, TenonError } from '../../../client/src/index.ts'

export interface SuiteOptions {
  readonly url: string
  readonly apikey: string
  /** Declared with `title`, `n` and full access of anon keys. */
  readonly collection: string
  /** Chosen by each runtime, so that their documents do not meet. */
  readonly mark: string
}

/** @throws Error with the first thing that is not as it should be */
function check(what: string, found: unknown, expected: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)]
  if (one !== other) throw new Error(`${what}: ${one} instead of ${other}`)
}

async function until<D>(
  list: { readonly snapshot: LiveSnapshot<D> },
  holds: (snapshot: LiveSnapshot<D>) => boolean,
) {
  for (let n = 0; n < 600; n++) {
    if (holds(list.snapshot)) return
    await new Promise((done) => setTimeout(done, 50))
  }
  throw new Error(`the live list stayed ${JSON.stringify(list.snapshot)}`)
}

/** @returns the names of the steps that were done, so that a caller sees that none was left out */
export async function runClientSuite({
  url,
  apikey,
  collection,
  mark,
}: SuiteOptions): Promise<readonly string[]> {
  const done: string[] = []
  const notes = createClient({ url, apikey }).from(collection)
  const mine = notes.where({ title: { like: `${mark}%` } })

  const made = await notes.create({ title: `${mark} first`, n: 1 })
  check('get', (await notes.get(made.id))['n'], 1)
  check('change', (await notes.change(made.id, { inc: { n: 4 } }))['n'], 5)
  done.push('documents')

  for (const n of [3, 1, 2]) await notes.create({ title: `${mark} ${n}`, n })
  const ordered: unknown[] = []
  for await (const { n } of mine.order('n', 'desc')) ordered.push(n)
  check('order', ordered, [5, 3, 2, 1])
  done.push('queries')

  const refused = await notes.get('018f0000-0000-7000-8000-00000000dead').catch((error: unknown) => error)
  check('error', refused instanceof TenonError && [refused.code, refused.status], ['not_found', 404])
  const aborted = await notes.count({ signal: AbortSignal.abort(new Error('left')) }).catch(String)
  check('cancelled', aborted, 'Error: left')
  done.push('errors')

  const list = mine
    .where({ n: { gte: 3 } })
    .order('n')
    .live()
  const stop = list.subscribe(() => undefined)
  const shown = () => list.snapshot.documents.map(({ n }) => n).join()
  await until(list, ({ state }) => state === 'live' && shown() === '3,5')
  await notes.create({ title: `${mark} late`, n: 4 })
  await until(list, () => shown() === '3,4,5')
  await notes.delete(made.id)
  await until(list, () => shown() === '3,4')
  stop()
  await until(list, ({ state }) => state === 'ended')
  done.push('live')
  return done
}
