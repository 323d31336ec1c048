/** Runs the programs of PostgreSQL that back up and restore. */

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { Reaper } from '../../../stack/launch.ts'
import { postgresPrograms } from '../../../stack/postgres.ts'
import type { Chunks } from '../repository/sealed-stream.ts'

/** Where the programs are, and which account runs the server and owns its files; undefined: that of this process. */
export interface Programs {
  readonly bin: string
  readonly account: { readonly uid: number; readonly gid: number } | undefined
}

/** Finds the programs, or fetches them. @throws BinaryUnavailable */
export const findPrograms = (env: NodeJS.ProcessEnv): Promise<Programs> =>
  postgresPrograms({ env, signal: new AbortController().signal, progress: () => {} })

/** Lets the account of the server enter a folder of this process. */
export async function openTo({ account }: Programs, folder: string): Promise<void> {
  if (account) await chown(folder, account.uid, account.gid)
}

/** A URL without its password, which other users could read in the arguments of a process, and the password as a variable. */
export function connectionOf(url: string): { readonly args: string[]; readonly env: NodeJS.ProcessEnv } {
  const parsed = new URL(url)
  const password = decodeURIComponent(parsed.password)
  parsed.password = ''
  // Replication has no database.
  return { args: ['--dbname', parsed.href, '--no-password'], env: { ...process.env, PGPASSWORD: password } }
}

/** A program that ends with this process, also if that is killed: it would go on to use its folder, or its slot. */
export class BoundProgram {
  readonly child: ChildProcess
  readonly #reaper = new Reaper()
  readonly #exited: Promise<void>

  constructor(command: string, args: readonly string[], options: SpawnOptions) {
    // The reaper ends groups of processes.
    this.child = spawn(command, args, { ...options, cwd: '/', detached: true })
    this.#exited = new Promise((resolve) => {
      this.child.once('error', () => resolve())
      this.child.once('exit', () => resolve())
    })
    if (this.child.pid !== undefined) this.#reaper.add(this.child.pid, 'SIGINT')
  }

  /** Interrupts it, and waits for its end. */
  async end(): Promise<void> {
    this.child.kill('SIGINT')
    await this.#exited
    if (this.child.pid !== undefined) this.#reaper.remove(this.child.pid)
    await this.#reaper.close()
  }
}

/** Runs a program to its end. @throws Error with what it has written to stderr */
export async function runProgram(
  { bin, account }: Programs,
  name: string,
  args: readonly string[],
  { asServer = false, env = process.env }: { asServer?: boolean; env?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  const program = new BoundProgram(join(bin, name), args, {
    ...{ stdio: ['ignore', 'ignore', 'pipe'], env },
    ...(asServer && account),
  })
  try {
    await ended(name, program.child)
  } finally {
    await program.end()
  }
}

/** What a program writes to stdout. @throws Error at its end, if it fails */
export async function* readOutput(
  { bin }: Programs,
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Chunks {
  const child = spawn(join(bin, name), args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/', env })
  const end = ended(name, child)
  end.catch(() => {})
  try {
    yield* child.stdout as AsyncIterable<Buffer>
    await end
  } finally {
    child.kill()
  }
}

/** Feeds a program, and waits for its end. @throws Error of the source, or with what the program has written to stderr */
export async function feed(name: string, child: ChildProcess, source: Chunks): Promise<void> {
  const end = ended(name, child)
  end.catch(() => {})
  const { stdin } = child
  if (stdin === null) throw new TypeError(`${name} has no stdin`)
  // A program that has failed closes it; its stderr says why.
  stdin.on('error', () => {})
  try {
    for await (const chunk of source) {
      if (child.exitCode !== null) break
      if (!stdin.write(chunk)) await Promise.race([once(stdin, 'drain'), end.catch(() => {})])
    }
    stdin.end()
    await end
  } catch (error) {
    child.kill()
    throw error
  }
}

const STDERR_CHARS = 4_000

async function ended(name: string, child: ChildProcess): Promise<void> {
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr = `${stderr}${chunk}`.slice(-STDERR_CHARS)
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) throw new Error(`${name} ended with ${signal ?? `code ${code}`}: ${stderr.trim()}`)
}
