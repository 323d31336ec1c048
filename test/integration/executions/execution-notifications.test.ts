/** ExecutionNotifier: publishes in one process, delivers in another, recovers when the server is away at first. */

import { afterEach, expect, inject, test } from 'vitest'
import { ExecutionNotifier } from '../../../src/features/flows/executions/watcher.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually, unique } from '../../support/fixtures/tenants.ts'
import { passingTo } from '../../support/servers/tcp-proxy.ts'

const url = inject('tenon').env['REDIS_URL'] ?? ''
const open: { close(): unknown }[] = []
afterEach(() => {
  for (const each of open.splice(0)) each.close()
})

function opened(at: string, errors: unknown[] = []): ExecutionNotifier {
  const news = new ExecutionNotifier(at, (error) => errors.push(error))
  open.push(news)
  return news
}

/** Publishes until it is delivered: a subscription takes effect shortly after it was requested. */
function heardBy(heard: readonly string[], teller: ExecutionNotifier, name: string): Promise<true> {
  return eventually(async () => {
    teller.publish(name)
    return heard.includes(name) ? true : undefined
  })
}

test('publish: delivered once to the last subscriber of another process', async () => {
  const heard: string[] = []
  const [teller, hearer] = [opened(url), opened(url)]
  const first: string[] = []
  hearer.subscribe((name) => first.push(name))
  hearer.subscribe((name) => heard.push(name))
  const [before, name] = [unique('run'), unique('run')]
  await heardBy(heard, teller, before)
  teller.publish(name)
  await eventually(async () => (heard.includes(name) ? true : undefined))
  expect(heard.filter((each) => each === name)).toHaveLength(1)
  expect(first).toEqual([])
})

test('subscribe while the server is down: a later subscribe succeeds once the server is up', async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('valkey', 0)
  const errors: unknown[] = []
  const heard: string[] = []
  const through = new URL(url)
  through.port = String(port)
  const hearer = opened(through.href, errors)
  hearer.subscribe((name) => heard.push(name))
  await eventually(async () => (errors.length > 1 ? true : undefined))
  open.push(await passingTo(new URL(url), { port }))
  const [teller, name] = [opened(url), unique('run')]
  await eventually(async () => {
    hearer.subscribe((told) => heard.push(told))
    teller.publish(name)
    return heard.includes(name) ? true : undefined
  }, 15_000)
})
