/** News of executions: told in one process, heard in another; who could not listen at first can later. */

import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, inject, test } from 'vitest'
import { News } from '../../src/platform/runs/news.ts'
import { Ports } from '../../stack/ports.ts'
import { eventually, unique } from '../support/tenants.ts'

const url = inject('tenon').env['REDIS_URL'] ?? ''
const open: { close(): unknown }[] = []
afterEach(() => {
  for (const each of open.splice(0)) each.close()
})

function opened(at: string, errors: unknown[] = []): News {
  const news = new News(at, (error) => errors.push(error))
  open.push(news)
  return news
}

/** Tells until it is heard: a subscription takes effect a moment after it was asked for. */
function heardBy(heard: readonly string[], teller: News, name: string): Promise<true> {
  return eventually(async () => {
    teller.tell(name)
    return heard.includes(name) ? true : undefined
  })
}

test('what one process tells, another hears; who listens twice hears it once', async () => {
  const heard: string[] = []
  const [teller, hearer] = [opened(url), opened(url)]
  const first: string[] = []
  hearer.listen((name) => first.push(name))
  hearer.listen((name) => heard.push(name))
  const [before, name] = [unique('run'), unique('run')]
  await heardBy(heard, teller, before)
  teller.tell(name)
  await eventually(async () => (heard.includes(name) ? true : undefined))
  expect(heard.filter((each) => each === name)).toHaveLength(1)
  expect(first).toEqual([])
})

test('where nobody answers at first, the next who listens is heard', async () => {
  const port = await new Ports({ remembered: {}, any: true }).take('valkey', 0)
  const errors: unknown[] = []
  const heard: string[] = []
  const through = new URL(url)
  through.port = String(port)
  const hearer = opened(through.href, errors)
  hearer.listen((name) => heard.push(name))
  await eventually(async () => (errors.length > 1 ? true : undefined))
  open.push(await relay(port, new URL(url)))
  const [teller, name] = [opened(url), unique('run')]
  await eventually(async () => {
    hearer.listen((told) => heard.push(told))
    teller.tell(name)
    return heard.includes(name) ? true : undefined
  }, 15_000)
})

/** Passes bytes to the server and back. */
async function relay(port: number, { hostname, port: at }: URL): Promise<{ close(): void }> {
  const sockets: Socket[] = []
  const server: Server = createServer((socket) => {
    const there = connect(Number(at), hostname)
    sockets.push(socket, there)
    for (const each of [socket, there]) each.on('error', () => {})
    socket.pipe(there).pipe(socket)
  })
  await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { close }
}
