/** HAProxy, of the machine or of Debian's package, with the back end that the page of deployments has, in front of several APIs. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../fixtures/tenants.ts'
import { debianProgram } from './debian.ts'
import type { Machine } from './network.ts'

export interface HaProxy {
  readonly url: string
  /** Waits until it sends requests to so many servers. */
  awaitReady(count: number): Promise<void>
  /** The log of HAProxy: which server it takes out or in, when, and why. */
  log(): string
  stop(): Promise<void>
}

const [PORT, STATUS_PORT] = [8080, 8404]
const PAGE = 'docs/deploying.md'

/** @param servers host:port of the APIs: as many as the example of the page has */
export async function startHaProxy(on: Machine, servers: readonly string[]): Promise<HaProxy> {
  const { path, env } = await debianProgram('haproxy', 'usr/sbin/haproxy')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-haproxy-'))
  const file = join(dir, 'haproxy.cfg')
  await writeFile(file, configOf(await exampleBackend(servers), on.address))
  const [command = '', ...args] = [...on.command, path, '-db', '-f', file]
  const child: ChildProcess = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr?.on('data', (text: Buffer) => {
    said += `${new Date().toISOString()} ${text.toString()}`
  })
  const stop = async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(dir, { recursive: true, force: true })
  }
  const countReady = async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${said}`)
    const reply = await fetch(`http://${on.address}:${STATUS_PORT}/;csv`).catch(() => undefined)
    return (await reply?.text())?.split('\n').filter((line) => /^tenon,(?!BACKEND)[^,]+,.*,UP,/.test(line))
      .length
  }
  return {
    url: `http://${on.address}:${PORT}`,
    awaitReady: async (count) => {
      await eventually(async () => (await countReady()) === count || undefined, 60_000)
    },
    log: () => said,
    stop,
  }
}

async function exampleBackend(servers: readonly string[]): Promise<string> {
  const [, example = ''] = /```haproxy\n(.*?)```/s.exec(await readFile(PAGE, 'utf8')) ?? []
  let count = 0
  const block = example.replaceAll(/^( *server \w+) \S+/gm, (_, words) => `${words} ${servers[count++]}`)
  if (count !== servers.length) throw new Error(`The example of ${PAGE} has ${count} servers.`)
  return block
}

/** It repeats nothing, not even a connection: clients see each error. */
const configOf = (backend: string, address: string) => `defaults
  mode http
  retries 0
  timeout connect 2s
  timeout client 75s
  timeout server 75s
frontend clients
  bind ${address}:${PORT}
  default_backend tenon
listen status
  bind ${address}:${STATUS_PORT}
  stats enable
  stats uri /
${backend}`
