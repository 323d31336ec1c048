/** The API process stops in time while connections are open, and without an error for its clients. */

import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { openImport } from '../../support/clients/ndjson.ts'
import { closeSubscriptions, endOf, findEnd, subscribeToEvents } from '../../support/clients/sse.ts'
import { type Caller, call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { startApi } from '../../support/stack/api-process.ts'
import type { Running } from '../../support/stack/start.ts'
import { stopwatch } from '../../support/stopwatch.ts'

afterEach(closeSubscriptions)

/** An import that the process has begun to serve: it answered `100 Continue`. Its first line is sent, and its body is open. */
async function beginImport(as: Caller, at: Running) {
  const { sent, reply } = openImport('kept', { as, at, headers: { expect: '100-continue' } })
  sent.flushHeaders()
  await once(sent, 'continue')
  sent.write('{"n":1}\n')
  return { sent, reply }
}

/** A process that has been told to end. */
async function endApi(settings: Readonly<Record<string, string>>) {
  const node = await startApi(settings)
  const workspace = await createTestWorkspace()
  const read = () =>
    call('GET', '/v1/collections/kept/documents', { as: workspace.service, at: node.at }).catch(
      () => undefined,
    )
  const ready = () => call('GET', '/readyz', { at: node.at })
  return { node, workspace, read, ready, exited: once(node.process, 'exit') }
}

/** A kept-alive connection on which a client asks from time to time. Resolves to the header `Connection` of the answer. */
function keptAlive(at: Running) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ask = async () => {
    const sent = request(`${at.url}/healthz`, { agent }).end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    await once(response.resume(), 'end')
    return [sent.reusedSocket, response.statusCode, response.headers.connection]
  }
  return { ask, close: () => agent.destroy() }
}

test('drain: SIGTERM: not ready at once, each answer ends its connection, and served until the delay is over; running requests end, streams say so', async () => {
  const { node, workspace, read, ready, exited } = await endApi({
    TENON_DRAIN_DELAY: '2',
    TENON_DRAIN_LIMIT: '60',
  })
  const received = await subscribeToEvents(workspace.service, 'topic=quiet', {}, node.at)
  const { sent, reply } = await beginImport(workspace.service, node.at)
  const client = keptAlive(node.at)
  expect(await client.ask()).toEqual([false, 200, 'keep-alive'])
  node.process.kill('SIGTERM')
  const draining = await eventually(async () => {
    const { status, body } = await ready()
    return status === 503 ? body : undefined
  })
  expect(draining).toMatchObject({ status: 'fail', draining: true, checks: { postgres: { status: 'pass' } } })
  expect((await call('GET', '/healthz', { at: node.at })).status).toBe(200)
  // A client on an old connection learns it with its next answer, so that no request meets the end of an idle connection.
  expect(await client.ask()).toEqual([true, 200, 'close'])
  expect(await client.ask()).toEqual([false, 200, 'close'])
  client.close()
  expect(findEnd(received)).toBeUndefined()
  expect(await endOf(received)).toBe('draining')
  await eventually(async () => ((await read()) === undefined ? true : undefined))
  expect(node.process.exitCode).toBeNull()
  sent.end('{"n":2}\n')
  const { status, headers, body } = await reply
  expect([status, headers.get('connection')]).toEqual([200, 'close'])
  expect(body).toMatchObject({ created: 2, failed: 0 })
  expect(await exited).toEqual([0, null])
})

test('drain: a request that takes longer than the limit: cut off, and the process ends', async () => {
  const { node, workspace, exited } = await endApi({ TENON_DRAIN_DELAY: '0', TENON_DRAIN_LIMIT: '1' })
  const { reply } = await beginImport(workspace.service, node.at)
  node.process.kill('SIGTERM')
  await expect(reply).rejects.toThrow(/hang up|ECONNRESET/)
  expect(await exited).toEqual([0, null])
})

test('drain: TENON_HOST is localhost: requests of both loopback addresses end', async () => {
  const { node, workspace, exited } = await endApi({
    ...{ TENON_HOST: 'localhost', TENON_DRAIN_DELAY: '0', TENON_DRAIN_LIMIT: '60' },
  })
  const { port } = new URL(node.at.url)
  const imports = await Promise.all(
    ['127.0.0.1', '[::1]'].map((host) =>
      beginImport(workspace.service, { ...node.at, url: `http://${host}:${port}` }),
    ),
  )
  const unused = connect(Number(port), '::1').on('error', () => {})
  await once(unused, 'connect')
  node.process.kill('SIGTERM')
  await once(unused, 'close')
  for (const { sent } of imports) sent.end('{"n":2}\n')
  for (const { reply } of imports) {
    const { status, headers, body } = await reply
    expect([status, headers.get('connection'), body.created]).toEqual([200, 'close', 2])
  }
  expect(await exited).toEqual([0, null])
})

test('shutdown: closing the connections fails: exit code 1, and one line that says why', async () => {
  const broken = `import { Server } from 'node:http'
    Server.prototype.closeAllConnections = () => { throw new Error('the connections stay open') }`
  const node = await startApi(
    { TENON_DRAIN_DELAY: '0' },
    undefined,
    `data:text/javascript,${encodeURIComponent(broken)}`,
  )
  const lines = text(node.process.stderr ?? Readable.from([]))
  node.process.kill('SIGTERM')
  const [code] = await once(node.process, 'exit')
  const [line = '', ...others] = (await lines).trim().split('\n')
  expect([code, others]).toEqual([1, []])
  expect(JSON.parse(line)).toMatchObject({
    ...{ level: 60, process: 'api', msg: 'shutdown failed' },
    err: { message: 'the connections stay open' },
  })
})

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
})
