/** Notifier: publishes in one process, delivers in another, recovers when the server is away at first. */

import { afterEach, expect, inject, test } from 'vitest'
import { Notifier } from '../../../src/infra/valkey/notifier.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually, unique } from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

const url = inject('tenon').env['REDIS_URL'] ?? ''
const connections: { close(): unknown }[] = []
afterEach(() => {
  for (const each of connections.splice(0)) each.close()
})

function openNotifier(at: string, errors: unknown[] = []): Notifier {
  const notifier = new Notifier(at, 'test', (error) => errors.push(error))
  connections.push(notifier)
  return notifier
}

/** Publishes until it is delivered: a subscription takes effect shortly after it was requested. */
function deliver(received: readonly string[], publisher: Notifier, name: string): Promise<true> {
  return eventually(async () => {
    publisher.publish(name)
    return received.includes(name) ? true : undefined
  })
}

test('publish: delivered once to the last subscriber of another process', async () => {
  const received: string[] = []
  const [publisher, subscriber] = [openNotifier(url), openNotifier(url)]
  const first: string[] = []
  subscriber.subscribe((name) => first.push(name))
  subscriber.subscribe((name) => received.push(name))
  const [before, name] = [unique('run'), unique('run')]
  await deliver(received, publisher, before)
  publisher.publish(name)
  await eventually(async () => (received.includes(name) ? true : undefined))
  expect(received.filter((each) => each === name)).toHaveLength(1)
  expect(first).toEqual([])
})

test('subscribe while the server is down: a later subscribe succeeds once the server is up', async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('valkey', 0)
  const errors: unknown[] = []
  const received: string[] = []
  const through = new URL(url)
  through.port = String(port)
  const subscriber = openNotifier(through.href, errors)
  subscriber.subscribe((name) => received.push(name))
  await eventually(async () => (errors.length > 1 ? true : undefined))
  connections.push(await startTcpProxy(new URL(url), { port }))
  const [publisher, name] = [openNotifier(url), unique('run')]
  await eventually(async () => {
    subscriber.subscribe((executionName) => received.push(executionName))
    publisher.publish(name)
    return received.includes(name) ? true : undefined
  }, 15_000)
})
