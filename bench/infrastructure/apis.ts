/** Processor time of requests that two APIs share, against one API. */

import type { Started } from '../../test/support/stack/start.ts'
import { startApi } from '../installation/start-api.ts'
import { compareSides, documentsAt } from './documents.ts'

export async function apis(started: Started): Promise<void> {
  const requestsAt = await documentsAt(started.running)
  const [one, ...two] = [
    await startApi(started, 'one', {}),
    await startApi(started, 'first of two', {}),
    await startApi(started, 'second of two', {}),
  ]
  const shared = two.map(({ url }) => requestsAt(url))
  let n = 0
  const next = () => shared[n++ % shared.length]
  const used: Readonly<Record<string, () => number>> = {
    'one API': () => (one?.usedNs() ?? 0) / 1_000,
    'two APIs': () => two.reduce((sum, { usedNs }) => sum + usedNs() / 1_000, 0),
  }
  await compareSides(
    {
      'one API': requestsAt(one?.url ?? ''),
      'two APIs': { get: async () => next()?.get(), insert: async () => next()?.insert() },
    },
    (name) => used[name]?.() ?? 0,
  )
}
