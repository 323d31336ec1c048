/** An installation of one machine in a folder of its own, as `npm start` runs it, whose commands are processes. */

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { readState } from '../../../stack/server.ts'
import { startStack } from '../../../stack/start.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'

const MAIN = resolve('src/cli/main.ts')
const DIE_AT = resolve('test/soak/restore/die-at.ts')
const START_MS = 180_000

/** A command without the values of its options: `backup prune --older-than`. */
export const outlineOf = (args: readonly string[]): string =>
  args
    .filter((word, at) => word.startsWith('--') || !args[at - 1]?.startsWith('--'))
    .map((word) => word.replace(/=.*/, ''))
    .join(' ')

interface SpawnOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Of Node. */
  readonly flags?: readonly string[]
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

async function endOf(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', '']
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  return { code, signal, stdout, stderr }
}

export class LocalInstallation {
  readonly dir: string
  /** Those that were run: {@link outlineOf} each. */
  readonly commands = new Set<string>()
  readonly #port: number
  readonly #env: NodeJS.ProcessEnv
  #up: ChildProcess | undefined
  #follow: ChildProcess | undefined
  /** What it has printed. */
  #followed = ''

  private constructor(dir: string, port: number) {
    this.dir = dir
    this.#port = port
    this.#env = {
      ...process.env,
      TENON_BACKUP_REPOSITORY: join(dir, 'repository'),
      TENON_BACKUP_PASSPHRASE: 'four words in a row',
      TENON_CALLER_CWD: dir,
    }
  }

  static async make(port: number): Promise<LocalInstallation> {
    const dir = await mkdtemp(join(tmpdir(), 'tenon-restore-drill-'))
    // As root, PostgreSQL runs as another user.
    await chmod(dir, 0o711)
    return new LocalInstallation(dir, port)
  }

  async start(): Promise<Running> {
    const up = this.#spawn(['up', '--no-demo', '--port', String(this.#port)])
    this.#up = up
    let output = ''
    up.stdout?.on('data', (chunk) => {
      output += chunk
    })
    up.stderr?.on('data', (chunk) => {
      output += chunk
    })
    await eventually(async () => {
      if (up.exitCode !== null) throw new Error(`it does not start:\n${output}`)
      return output.includes('Ready in') || undefined
    }, START_MS)
    const settings = parseEnv(await readFile(join(this.dir, '.env.local'), 'utf8'))
    const { running } = readState(join(this.dir, '.tenon'))
    return {
      url: settings['TENON_URL'] ?? '',
      clientId: settings['TENON_CLIENT_ID'] ?? '',
      clientSecret: settings['TENON_CLIENT_SECRET'] ?? '',
      masterKey: (await readFile(join(this.dir, '.tenon/master.key'), 'utf8')).trim(),
      databaseUrl: running?.env['DATABASE_URL'] ?? '',
      logs: join(this.dir, '.tenon/logs'),
      env: running?.env ?? {},
      echoPorts: [],
    }
  }

  /** Follows with a moment every second. */
  async follow(): Promise<void> {
    const follow = this.#spawn(['backup', 'follow', '--every', '1s'])
    this.#follow = follow
    for (const stream of [follow.stdout, follow.stderr])
      stream?.on('data', (chunk) => {
        this.#followed += chunk
      })
    await this.followed(0)
  }

  /** Waits for a moment after a time. */
  async followed(sinceMs: number): Promise<void> {
    await eventually(async () => {
      if (this.#follow?.exitCode !== null) throw new Error(`it does not follow:\n${this.#followed}`)
      const moments = this.#followed.matchAll(/^(\S+Z) can be restored/gm)
      return [...moments].some(([, at = '']) => Date.parse(at) > sinceMs) || undefined
    }, START_MS)
  }

  /** Runs a command to its end. @returns what it prints to stdout @throws with stderr */
  async run(...args: readonly string[]): Promise<string> {
    this.commands.add(outlineOf(args))
    const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args], {
      ...{ cwd: this.dir, env: this.#env, maxBuffer: 1 << 26 },
    })
    return stdout
  }

  /** Runs a command to its end, whatever that is. @param env settings of this command alone */
  async attempt(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    this.commands.add(outlineOf(args))
    return endOf(this.#spawn(args, { env }))
  }

  /** Runs a command that is killed at a point, as `die-at.ts` names them. @throws Error if it ends before */
  async attemptUntil(point: string, args: readonly string[]): Promise<void> {
    const ended = await endOf(
      this.#spawn(args, { env: { TENON_DIE_AT: point }, flags: ['--import', DIE_AT] }),
    )
    if (ended.signal !== 'SIGKILL') throw new Error(`it does not come to ${point}:\n${ended.stderr}`)
  }

  /** Runs the servers alone, without the platform, as a restore does. */
  async withServers<T>(work: (env: Readonly<Record<string, string>>) => Promise<T>): Promise<T> {
    const dir = join(this.dir, '.tenon')
    const stack = await startStack({ dir, ephemeral: false, env: process.env, onProgress: () => {} })
    try {
      return await work(stack.env)
    } finally {
      await stack.stop()
    }
  }

  async stop(): Promise<void> {
    await this.#end('SIGINT')
  }

  /** Kills the processes that this test has started, and the servers by the ids that the stack has noted. */
  async kill(): Promise<void> {
    const { running, reaper } = readState(join(this.dir, '.tenon'))
    for (const { pid } of running?.servers ?? []) if (pid !== undefined) process.kill(pid, 'SIGKILL')
    await this.#end('SIGKILL')
    // It ends what is left of the process groups.
    if (reaper !== undefined)
      await eventually(async () => {
        try {
          process.kill(reaper.pid, 0)
          return undefined
        } catch {
          return true
        }
      })
  }

  async deleteData(): Promise<void> {
    // What receives the log ends a moment after its parent.
    await rm(join(this.dir, '.tenon'), { recursive: true, maxRetries: 10, retryDelay: 200 })
    await rm(join(this.dir, '.env.local'))
  }

  async remove(): Promise<void> {
    await this.#end('SIGINT')
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 })
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const children = [this.#follow, this.#up].filter(
      (child) => child?.exitCode === null && child.signalCode === null,
    )
    await Promise.all(
      children.map(async (child) => {
        child?.kill(signal)
        if (child) await once(child, 'exit')
      }),
    )
  }

  #spawn(args: readonly string[], { env = {}, flags = [] }: SpawnOptions = {}): ChildProcess {
    this.commands.add(outlineOf(args))
    return spawn(process.execPath, [...flags, MAIN, ...args], {
      cwd: this.dir,
      env: { ...this.#env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }
}
