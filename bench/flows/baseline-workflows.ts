/** Handwritten TypeScript workflows for the same work: the limit of an interpreted flow. */

import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow'

export interface BaselineActivities {
  get(url: string): Promise<unknown>
}

const OPTIONS = { startToCloseTimeout: '10s', retry: { maximumAttempts: 3 } } as const
const { get } = proxyActivities<BaselineActivities>(OPTIONS)
const { get: getBeside } = proxyLocalActivities<BaselineActivities>(OPTIONS)

export async function steps({ n }: { n: number }): Promise<unknown> {
  const first = { n: n + 1 }
  const second = { n: first.n * 2 }
  const third = { ...second, even: second.n % 2 === 0 }
  const fourth = { ...third, name: `run ${third.n}` }
  return { ...fourth, done: true }
}

export async function calls({ url }: { url: string }): Promise<unknown> {
  await get(url)
  await get(url)
  return get(url)
}

/** Written with the knowledge that a request without side effects needs no task of its own. */
export async function callsBeside({ url }: { url: string }): Promise<unknown> {
  await getBeside(url)
  await getBeside(url)
  return getBeside(url)
}

export async function fan({ url }: { url: string }): Promise<unknown> {
  return Promise.all(Array.from({ length: 100 }, () => get(url)))
}
