/** Runs a real Caddy with an admin API, and with a route of somebody else in its one server. */

import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary } from '../../../stack/binaries.mjs'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

export interface Route {
  readonly '@id'?: string
  readonly [member: string]: unknown
}

export interface Caddy {
  readonly adminUrl: string
  /** Of its server. */
  readonly url: string
  routes(): Promise<readonly Route[]>
  /** Changes the configuration as an operator would. */
  change(method: string, path: string, body?: unknown): Promise<void>
  /** Ends the process, or starts it again with what it had. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

export const FOREIGN: Route = {
  '@id': 'somebody-else',
  handle: [{ handler: 'static_response', status_code: 404, body: 'nobody' }],
}

const ROUTES = '/config/apps/http/servers/srv0/routes'

export async function startCaddy(): Promise<Caddy> {
  const path = await binary('caddy')
  const dir = await mkdtemp(join(tmpdir(), 'tenon-caddy-'))
  const ports = new Ports({ remembered: {}, any: true })
  const [admin, http] = [await ports.take('admin', 0), await ports.take('http', 0)]
  const adminUrl = `http://127.0.0.1:${admin}`
  const config = {
    admin: { listen: `127.0.0.1:${admin}` },
    apps: {
      http: {
        servers: {
          srv0: { listen: [`127.0.0.1:${http}`], automatic_https: { disable: true }, routes: [FOREIGN] },
        },
      },
    },
  }
  const file = join(dir, 'config.json')
  await writeFile(file, JSON.stringify(config))
  let child: ReturnType<typeof spawn> | undefined
  const ask = async (method: string, at: string, body?: unknown) => {
    const reply = await fetch(`${adminUrl}${at}`, {
      method,
      headers: { 'content-type': 'application/json', origin: adminUrl },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await reply.text()
    if (!reply.ok) throw new Error(`Caddy: ${method} ${at}: ${reply.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
  const start = async () => {
    child = spawn(path, ['run', '--resume', '--config', file], {
      stdio: 'ignore',
      // It keeps its configuration there when it ends.
      env: { HOME: dir, XDG_CONFIG_HOME: dir, XDG_DATA_HOME: dir },
    })
    await eventually(() =>
      ask('GET', '/config/').then(
        () => true,
        () => undefined,
      ),
    )
  }
  const stop = async () => {
    const exited = new Promise((done) => child?.once('exit', done))
    child?.kill('SIGTERM')
    await exited
  }
  await start()
  return {
    ...{ adminUrl, url: `http://127.0.0.1:${http}`, start, stop },
    routes: () => ask('GET', ROUTES),
    change: async (method, at, body) => void (await ask(method, at, body)),
    close: async () => {
      await stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}
