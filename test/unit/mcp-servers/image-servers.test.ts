/** Servers of images: how many run at once, and that nothing of them is left. */

import { existsSync, readFileSync } from 'node:fs'
import { afterEach, expect, test, vi } from 'vitest'
import { ImageServers } from '../../../src/features/mcp-servers/images/image-servers.ts'
import { StdioProcess } from '../../../src/features/mcp-servers/images/stdio-process.ts'
import type { Config } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { stopwatch } from '../../support/stopwatch.ts'

const WAITS = ['/bin/sh', '-c', 'read line']
const config = { TENON_DEV_STDIO_SERVERS: { waits: WAITS, absent: ['/none'] } } as unknown as Config
const servers = new ImageServers(config, openLog('silent', 'test'))
const release: (() => void)[] = []

const start = (workspaceId: string, image = 'dev:waits') => ({
  ...{ image, commandArgs: [], env: {} },
  limits: { memory_mb: 32, cpus: 1, pids: 8, timeout_seconds: 5 },
  owner: { tenantId: 'ten_1', workspaceId, source: 'src_1' },
})
const NEVER = new AbortController().signal

afterEach(async () => {
  for (const one of release.splice(0)) one()
  await servers.close()
})

test('servers of a workspace: four at once, the next one waits; another workspace does not', async () => {
  const running: string[] = []
  const use = (workspace: string) =>
    servers.use(start(workspace), NEVER, () => {
      running.push(workspace)
      return new Promise<void>((done) => release.push(done))
    })
  const uses = Array.from({ length: 5 }, () => use('ws_1'))
  await vi.waitFor(() => expect(running).toHaveLength(4))
  uses.push(use('ws_2'))
  await vi.waitFor(() => expect(running).toEqual(['ws_1', 'ws_1', 'ws_1', 'ws_1', 'ws_2']))
  release.shift()?.()
  await vi.waitFor(() => expect(running.at(-1)).toBe('ws_1'))
  for (const one of release.splice(0)) one()
  await Promise.all(uses)
})

test('call that is given up: its server ends, and its request fails with the reason', async () => {
  const late = new AbortController()
  const use = servers.use(start('ws_3'), late.signal, ({ post }) => {
    late.abort(new Error('late'))
    return post({}, '{"jsonrpc":"2.0","id":1,"method":"a"}', {})
  })
  await expect(use).rejects.toThrow('late')
})

test('program that is not there, and engine that is not there: containers_unavailable', async () => {
  const use = servers.use(start('ws_4', 'dev:absent'), NEVER, async () => {})
  await expect(use).rejects.toMatchObject({ code: 'containers_unavailable' })
  const without = new ImageServers(
    { ...config, TENON_CONTAINER_ENGINE: '/none/docker' },
    openLog('silent', 'test'),
  )
  await expect(without.check('registry.test/x@sha256:0')).rejects.toMatchObject({
    code: 'containers_unavailable',
  })
})

test('server that has started others: all end together (T42)', async () => {
  const lines: string[] = []
  const program = { program: '/bin/sh', args: ['-c', 'sleep 600 & echo $!; wait'] }
  const listener = { onMessage: (line: string) => lines.push(line), onEnd: () => {} }
  const server = await StdioProcess.start(program, listener, () => expect.unreachable())
  await vi.waitFor(() => expect(lines).toHaveLength(1))
  expect(isAlive(lines[0])).toBe(true)
  await server.stop()
  await vi.waitFor(() => expect(isAlive(lines[0])).toBe(false))
})

test('server whose child has left its group and keeps the output open: its end is not waited for', async () => {
  const lines: string[] = []
  const program = { program: '/bin/sh', args: ['-c', 'setsid sleep 3 & echo started; wait'] }
  const listener = { onMessage: (line: string) => lines.push(line), onEnd: () => {} }
  const server = await StdioProcess.start(program, listener, () => expect.unreachable())
  await vi.waitFor(() => expect(lines).toEqual(['started']))
  const elapsedMs = stopwatch()
  await server.stop()
  expect(elapsedMs()).toBeLessThan(2_000)
})

/** A process that nobody has waited for is dead, too. */
const isAlive = (pid = ''): boolean =>
  existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
