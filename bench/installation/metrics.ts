/** Measures the cost of metrics for a request: one API with them, which is scraped, and two without, of which one shows the noise. */

import { opsAddress } from '../../test/support/clients/metrics.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { threadsNs } from '../cpu.ts'
import { createTestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { print, sized } from '../measure.ts'
import { compare } from './paired.ts'
import { processOf, startApi } from './start-api.ts'

/** As in deploy/prometheus/prometheus.yml. */
const SCRAPE_MS = 15_000
const SCRAPES = sized(50, 1)

/** The first is the one that the others are compared with. */
const APIS = { 'without metrics': '', 'without, again': '', 'with metrics': '127.0.0.1:0' } as const
type Name = keyof typeof APIS
const NAMES = Object.keys(APIS) as Name[]

export async function metrics(started: Started): Promise<void> {
  const { apikey } = await createTestWorkspace(started.running)
  const [first, ...others] = await Promise.all(
    NAMES.map((name) => startApi(started, name, { TENON_OPS_LISTEN: APIS[name] })),
  )
  if (first === undefined) return
  const sides = [first, ...others] as const
  const scrape = await scraper(started)
  const scraping = setInterval(() => void scrape(), SCRAPE_MS)
  const path = '/v1/collections/bench/documents'
  const created = await sender(first.url, { apikey }, 1)('POST', path, '{"n":1}')
  const { id } = JSON.parse(created) as { id: string }
  await compare('GET document', sides, { apikey }, (send) => send('GET', `${path}/${id}`))
  await compare('POST document', sides, { apikey }, (send) => send('POST', path, '{"n":1}'))
  clearInterval(scraping)
  const usedNs = () => threadsNs(started.stack.supervisor.pid(processOf('with metrics')))
  const before = usedNs()
  for (let n = 0; n < SCRAPES; n++) await scrape()
  print('\none scrape', 'CPU ms')
  print(`every ${SCRAPE_MS / 1_000} s`, (usedNs() - before) / SCRAPES / 1e6)
}

async function scraper({ running }: Started): Promise<() => Promise<string>> {
  const url = `${await opsAddress(processOf('with metrics'), running)}/metrics`
  return async () => (await fetch(url)).text()
}
