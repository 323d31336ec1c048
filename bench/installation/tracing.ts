/** Measures what spans cost a request: one API that sends them to a collector, and two without, of which one shows the noise. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Started } from '../../test/support/stack/start.ts'
import { createTestWorkspace } from '../fixture.ts'
import { sender } from '../http.ts'
import { compare } from './paired.ts'
import { startApi } from './start-api.ts'

/** The first is the one that the others are compared with. */
const NAMES = ['without spans', 'without, again', 'with spans'] as const

export async function tracing(started: Started): Promise<void> {
  const collector = createServer((request, reply) => void request.resume().on('end', () => reply.end('{}')))
  await new Promise<void>((done) => collector.listen(0, '127.0.0.1', done))
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`
  const { apikey } = await createTestWorkspace(started.running)
  const [first, ...others] = await Promise.all(
    NAMES.map((name) =>
      startApi(started, name, name === 'with spans' ? { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } : {}),
    ),
  )
  if (first === undefined) return
  const sides = [first, ...others] as const
  const path = '/v1/collections/bench/documents'
  const { id } = JSON.parse(await sender(first.url, { apikey }, 1)('POST', path, '{"n":1}')) as { id: string }
  await compare('GET document', sides, { apikey }, (send) => send('GET', `${path}/${id}`))
  await compare('POST document', sides, { apikey }, (send) => send('POST', path, '{"n":1}'))
  collector.close()
}
