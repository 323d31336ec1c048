/** The API process stops in time while connections are open. */

import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { stopwatch } from '../../support/stopwatch.ts'

afterEach(closeSubscriptions)

test('shutdown: idle connections and open streams: ends in time', async () => {
  const node = await startApi({})
  const workspace = await createTestWorkspace()
  await subscribeToEvents(workspace.service, 'topic=quiet', {}, node.at)
  const { hostname, port } = new URL(node.at.url)
  const idle = connect(Number(port), hostname).on('error', () => {})
  await once(idle, 'connect')
  const elapsedMs = stopwatch()
  node.process.kill('SIGTERM')
  const [code] = await once(node.process, 'exit')
  expect(code).toBe(0)
  expect(elapsedMs()).toBeLessThan(15_000)
  idle.destroy()
}, 90_000)
