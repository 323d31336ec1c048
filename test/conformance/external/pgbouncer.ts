/** Runs PgBouncer, of the machine or of Debian's package, in front of the PostgreSQL of all tests. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import { debianProgram } from '../../support/servers/debian.ts'

export interface PgBouncer {
  /** Whether it can keep prepared statements: 1.21 and newer. */
  readonly keepsStatements: boolean
  /** Its folder. */
  readonly dir: string
  /** The URL of the same database and role through it. */
  through(url: string): string
  /** Ends it at once, as a crash does, and starts it again. */
  restart(): Promise<void>
  stop(): Promise<void>
}

/** It refuses to run as root. */
const NOBODY = 65_534

/**
 * @param urls of the roles that log in through it
 * @param settings further lines, and files in its folder that they name; `databaseUrl` of another PostgreSQL
 */
export async function startPgBouncer(
  mode: 'session' | 'transaction',
  urls: readonly string[],
  {
    settings = [],
    files = {},
    databaseUrl = inject('tenon').databaseUrl,
  }: { settings?: readonly string[]; files?: Readonly<Record<string, string>>; databaseUrl?: string } = {},
): Promise<PgBouncer> {
  const { path, env } = await debianProgram('pgbouncer', 'usr/sbin/pgbouncer')
  const { stdout } = await promisify(execFile)(path, ['--version'], { env })
  const [, major = '0', minor = '0'] = /PgBouncer (\d+)\.(\d+)/.exec(stdout) ?? []
  const dir = mkdtempSync(join(tmpdir(), 'tenon-pgbouncer-'))
  chmodSync(dir, 0o711)
  const port = await new Ports({ remembered: {}, any: true }).take('pgbouncer', 0)
  const upstream = new URL(databaseUrl)
  const users = urls.map((url) => new URL(url)).map(({ username, password }) => [username, password])
  const write = (name: string, lines: readonly string[]) =>
    writeFileSync(join(dir, name), `${lines.join('\n')}\n`, { mode: 0o644 })
  write(
    'users.txt',
    users.map((user) => user.map((text) => `"${decodeURIComponent(text)}"`).join(' ')),
  )
  write('pgbouncer.ini', [
    '[databases]',
    `* = host=${upstream.hostname} port=${upstream.port}`,
    '[pgbouncer]',
    ...[`pool_mode = ${mode}`, 'default_pool_size = 10', 'max_client_conn = 500'],
    ...['listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir ='],
    ...['auth_type = scram-sha-256', `auth_file = ${join(dir, 'users.txt')}`],
    ...settings,
  ])
  for (const [name, text] of Object.entries(files)) write(name, [text])
  let child: ChildProcess | undefined
  const start = async () => {
    const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
    child = spawn(path, ['pgbouncer.ini'], { cwd: dir, env, stdio: 'ignore', ...user })
    await eventually(async () => {
      if (child?.exitCode !== null) throw new Error('PgBouncer ended')
      const socket = connect(port, '127.0.0.1')
      return once(socket, 'connect')
        .then(
          () => true,
          () => undefined,
        )
        .finally(() => socket.destroy())
    })
  }
  const end = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await start()
  return {
    dir,
    keepsStatements: Number(major) > 1 || Number(minor) >= 21,
    through: (url) => {
      const changed = new URL(url)
      changed.hostname = '127.0.0.1'
      changed.port = String(port)
      return changed.href
    },
    restart: async () => {
      await end()
      await start()
    },
    stop: async () => {
      await end()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
