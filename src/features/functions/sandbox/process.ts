/** A Deno process without permissions: started blank, given code once, stopped by a signal while it has nothing to do. */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import { killGroup, signalGroup } from '../../../infra/kill-group.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { encodeFrame, type HostFrameKind } from './frames.ts'
import { GUEST_URL, IMPORT_MAP_URL } from './guest-program.ts'
import { childrenOf, type Isolation } from './isolation.ts'

/** Explicit denials override the defaults of any Deno. No remote code, no packages, no settings from files. */
const FLAGS = [
  'run',
  ...['prompt', 'remote', 'npm', 'config', 'lock', 'code-cache'].map((what) => `--no-${what}`),
  '--cached-only',
  ...['read', 'write', 'net', 'env', 'run', 'sys', 'ffi', 'import'].map((right) => `--deny-${right}`),
  `--import-map=${IMPORT_MAP_URL}`,
]

/**
 * A folder that cannot exist. Deno stores `localStorage` and `caches` in its folder under the name of the main module,
 * which is the same for all tenants: they would read each other's data.
 */
const NO_FOLDER = '/dev/null/none'
const ENV = { DENO_DIR: NO_FOLDER, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1' }
const MAJOR = 2

/** Takes what the process writes during an invocation. */
export interface OutputListener {
  stdout(chunk: Buffer): void
  stderr(chunk: Buffer): void
}

export class FunctionProcess {
  /** Rejects if Deno does not start; the message is for operators. */
  readonly ready: Promise<void>
  /** Resolves with the exit code when the process is gone. */
  readonly gone: Promise<number | null>
  readonly memoryMb: number
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #isolation: Isolation
  /** The pid of the engine, whose parent may be a sandbox. */
  #enginePid: number | undefined
  #listener: OutputListener | undefined
  #idleBytes = 0
  #isGone = false
  #isKilled = false
  #isStopped = false
  #niceness: number | undefined
  #isSessionSet = false

  constructor(deno: string, memoryMb: number, isolation: Isolation) {
    this.memoryMb = memoryMb
    this.#isolation = isolation
    const heap = `--v8-flags=--max-old-space-size=${memoryMb}`
    const { command, args, user } = isolation.start(deno, [...FLAGS, heap, GUEST_URL])
    this.#child = spawn(command, args, {
      ...user,
      cwd: '/',
      env: ENV,
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    })
    // A dead process takes no input; its end is reported by `close`.
    this.#child.stdin.on('error', () => {})
    this.gone = new Promise((done) => {
      const end = (code: number | null) => {
        this.#isGone = true
        done(code)
      }
      this.#child.once('error', () => end(null))
      this.#child.once('close', end)
    })
    this.#child.stderr.on('data', (chunk: Buffer) => {
      if (this.#listener === undefined) this.#countIdle(chunk)
      else this.#listener.stderr(chunk)
    })
    this.ready = this.#becomeReady()
    this.ready.catch(() => this.kill())
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** False once it was killed or has ended. */
  get isAlive(): boolean {
    return !this.#isGone && !this.#isKilled
  }

  /** Undefined until it is set. */
  get niceness(): number | undefined {
    return this.#niceness
  }

  /** Sets the niceness of the process and of its session. Without root it only grows; then a lower one leaves it as it is. */
  setNiceness(niceness: number): void {
    const pid = this.#enginePid
    if (pid === undefined) return
    if (this.#niceness !== niceness && setThreads(pid, niceness)) {
      this.#niceness = niceness
      this.#isSessionSet = false
    }
    this.#isSessionSet ||= setSession(pid, this.#niceness ?? niceness)
  }

  /** Kills the process with all its threads; it can have no children. */
  kill(): void {
    this.#isKilled = true
    // After its end, the id may be that of another process.
    if (!this.#isGone) killGroup(this.#child.pid)
  }

  /** Stops the process, timers included, until {@link resume}. */
  stop(): void {
    this.#isStopped = true
    if (this.isAlive) signalGroup(this.#child.pid, 'SIGSTOP')
  }

  resume(): void {
    if (this.#isStopped && this.isAlive) signalGroup(this.#child.pid, 'SIGCONT')
    this.#isStopped = false
  }

  /** Passes output to a listener from now on. Without one it is dropped, and too much of it ends the process. */
  listen(listener: OutputListener | undefined): void {
    this.#listener = listener
  }

  /** Writes a frame. Resolves when the process has taken it, or is gone. */
  send(kind: HostFrameKind, id: number, json: Buffer | string, bytes?: Buffer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#child.stdin.write(encodeFrame(kind, id, json, bytes), () => resolve())
    return promise
  }

  /** Resident memory; 0 if it is unknown. It counts buffers, which V8's own limit does not. */
  residentKb(): number {
    try {
      const status = readFileSync(`/proc/${this.#enginePid}/status`, 'latin1')
      return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0)
    } catch {
      return 0
    }
  }

  #countIdle(chunk: Buffer): void {
    this.#idleBytes += chunk.length
    if (this.#idleBytes > FUNCTION_LIMITS.noiseBytesMax) this.kill()
  }

  /** Reads Deno's version from the first line, which is trustworthy, since no user code was sent yet. */
  async #becomeReady(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<string>()
    let line = ''
    const read = (chunk: Buffer) => {
      line += chunk.toString('latin1')
      if (line.includes('\n')) resolve(line)
    }
    this.#child.stdout.on('data', read)
    const late = setTimeout(() => resolve(''), FUNCTION_LIMITS.startMs)
    void this.gone.then(() => resolve(line))
    const firstLine = await promise
    clearTimeout(late)
    this.#child.stdout.off('data', read)
    const [, version, major] = /^ready ((\d+)\.[\w.+-]+)\n/.exec(firstLine) ?? []
    if (version === undefined) throw new Error('Deno does not start')
    if (Number(major) !== MAJOR) throw new Error(`Deno ${MAJOR} is required, but this is Deno ${version}`)
    this.#enginePid = this.#isolation.isWrapped ? childOf(this.#child.pid) : this.#child.pid
    if (this.#enginePid === undefined)
      throw new Error('Deno runs in a sandbox whose memory cannot be watched')
    this.#child.stdout.on('data', (chunk: Buffer) => {
      if (this.#listener === undefined) this.#countIdle(chunk)
      else this.#listener.stdout(chunk)
    })
  }
}

/** The pid of the process that a sandbox has started. */
function childOf(pid: number | undefined): number | undefined {
  const [child] = pid === undefined ? [] : readFileSync(childrenOf(pid), 'latin1').trim().split(' ')
  return child ? Number(child) : undefined
}

/** Linux counts niceness by thread. @returns false if the system refuses, or a thread has just ended */
function setThreads(pid: number, niceness: number): boolean {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), niceness)
    return true
  } catch {
    return false
  }
}

/**
 * Where Linux groups processes by session, as outside of containers, the niceness of a process counts only within its session, and
 * that of the session between sessions (sched(7), "The autogroup feature").
 * @returns false if it is to be tried again: without root, ten changes a second are possible
 */
function setSession(pid: number, niceness: number): boolean {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(niceness))
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EAGAIN'
  }
}
