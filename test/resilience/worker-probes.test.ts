/** A worker process: waits for Temporal and says so, has probes of its own, is unready while it is frozen, and ends its steps. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { currentBuild } from '../../src/cli/stack/build.ts'
import { Ports } from '../../stack/ports.ts'
import { call, eventually, type Reply } from '../support/fixtures/tenants.ts'
import { startTcpProxy, type TcpProxy } from '../support/servers/tcp-proxy.ts'
import { type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

interface Line {
  readonly msg: string
  readonly part?: string
  readonly cause?: string
  readonly detail?: string
  readonly check?: string
  readonly is?: string
}

let own: OwnPlatform
const workers: ChildProcess[] = []
const proxies: TcpProxy[] = []

beforeAll(async () => {
  own = await sharedPlatform()
})
afterAll(async () => {
  for (const { pid, exitCode, signalCode } of workers)
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(pid, 'SIGKILL')
  for (const proxy of proxies) proxy.close()
  await own?.end()
})

/** A second worker on the servers of the platform. */
async function startWorker(settings: Readonly<Record<string, string>>) {
  const { running } = own.started
  const ops = await new Ports({ remembered: {}, any: true }).take('ops', 0)
  const env = {
    ...{ ...process.env, ...running.env, TENON_EAGER_START_SOCKET: '' },
    ...{ TENON_OPS_LISTEN: `127.0.0.1:${ops}`, ...settings },
  }
  const child = spawn(process.execPath, [(await currentBuild()).worker], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  workers.push(child)
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
  const at = { ...running, url: `http://127.0.0.1:${ops}` }
  const probe = (path: string): Promise<Reply | undefined> => call('GET', path, { at }).catch(() => undefined)
  const lines = () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{"level"'))
      .map((line) => JSON.parse(line) as Line)
  const statuses = async () =>
    Promise.all(['/healthz', '/startupz', '/readyz'].map(async (path) => (await probe(path))?.status))
  return { child, probe, lines, statuses, exited: once(child, 'exit'), at }
}

/** An address at which Temporal is not yet. */
async function reserveAddress() {
  const url = new URL(`http://${own.started.running.env['TEMPORAL_ADDRESS']}`)
  const port = await new Ports({ remembered: {}, any: true }).take('temporal', 0)
  const open = async () => void proxies.push(await startTcpProxy(url, { port }))
  return { TEMPORAL_ADDRESS: `127.0.0.1:${port}`, open }
}

test('worker: Temporal is away at its start: waits, alive and not ready, says why, and works once it is there', async () => {
  const { open, ...settings } = await reserveAddress()
  const { child, probe, lines, statuses, exited, at } = await startWorker(settings)
  await eventually(async () => ((await probe('/healthz'))?.status === 200 ? true : undefined), 60_000)
  await eventually(async () => lines().find(({ check, is }) => check === 'temporal' && is === 'unknown'))
  const failing = await eventually(async () => lines().find(({ part }) => part === 'temporal'))
  expect(failing).toMatchObject({ msg: 'health check fails', cause: 'refused' })
  expect(failing?.detail).toContain('Temporal refuses connections')
  expect(await statuses()).toEqual([200, 503, 503])
  const { checks } = (await probe('/readyz'))?.body ?? {}
  expect(checks).toMatchObject({
    postgres: { status: 'pass' },
    temporal: { status: 'fail', required: false, cause: 'refused' },
    pollers: { status: 'fail', required: true, detail: expect.stringContaining('waits for Temporal') },
  })
  await open()
  await eventually(async () => ((await probe('/readyz'))?.status === 200 ? true : undefined), 60_000)
  expect(await statuses()).toEqual([200, 200, 200])
  expect((await probe('/version'))?.body).toEqual(
    (await call('GET', '/version', { at: own.started.running })).body,
  )
  expect((await probe('/other'))?.status).toBe(404)
  // Frozen, it answers no probe.
  child.kill('SIGSTOP')
  await expect(fetch(`${at.url}/readyz`, { signal: AbortSignal.timeout(1_000) })).rejects.toThrow(/timeout/)
  child.kill('SIGCONT')
  await eventually(async () => ((await probe('/readyz'))?.status === 200 ? true : undefined))
  child.kill('SIGTERM')
  expect(await exited).toEqual([0, null])
})
