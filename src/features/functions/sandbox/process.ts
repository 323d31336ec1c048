/** Runs one call in one Deno process without permissions, limits its time, memory and output, and kills it. */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { LIMITS } from '../../../core/limits.ts'
import { killGroup } from '../../../infra/kill-group.ts'
import { GUEST_URL, type GuestJob } from './guest-program.ts'
import { childrenOf, type Isolation } from './isolation.ts'

export interface Job {
  /** JavaScript; see compile.ts. */
  readonly compiled: string
  readonly input: unknown
  readonly context?: unknown
  readonly timeoutMs: number
  readonly memoryMb: number
  /** Aborts the call. */
  readonly signal: AbortSignal
}

/** The end of a call. `died`: the process ended before it replied. */
export type Ending =
  | { readonly kind: 'frame'; readonly frame: Frame }
  | { readonly kind: 'timeout' | 'memory' | 'too_large' | 'too_loud' | 'given_up' }
  | { readonly kind: 'died'; readonly code: number | null }

export interface Report {
  readonly ending: Ending
  readonly logs: readonly string[]
}

/** Explicit denials override the defaults of any Deno. No remote code, no packages, no settings from files. */
const FLAGS = [
  'run',
  ...['prompt', 'remote', 'npm', 'config', 'lock', 'code-cache'].map((what) => `--no-${what}`),
  '--cached-only',
  ...['read', 'write', 'net', 'env', 'run', 'sys', 'ffi', 'import'].map((right) => `--deny-${right}`),
]

/**
 * A folder that cannot exist. Deno stores `localStorage` and `caches` in its folder under the name of the main module,
 * which is the same for all tenants: they would read each other's data.
 */
const NO_FOLDER = '/dev/null/none'
const ENV = { DENO_DIR: NO_FOLDER, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1' }
const MAJOR = 2

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
  readonly #log = new Log()
  #used = false

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
      this.#child.once('error', () => done(null))
      this.#child.once('close', (code) => done(code))
    })
    this.#child.stderr.on('data', (chunk: Buffer) => {
      if (!this.#log.add(chunk)) this.kill()
    })
    this.ready = this.#becomeReady()
    this.ready.catch(() => this.kill())
  }

  /** Kills the process with all its threads; it can have no children. */
  kill(): void {
    killGroup(this.#child.pid)
  }

  /** Runs the call and ends the process in any case. Never rejects once the process is ready. */
  async run(job: Job): Promise<Report> {
    if (this.#used) throw new TypeError('A process is used once')
    this.#used = true
    await this.ready
    const nonce = randomBytes(16).toString('hex')
    const reply = new Reply(nonce)
    const ending = this.#ending(job, reply)
    this.#send(job, nonce)
    const ended = await ending
    this.kill()
    // The last lines may still be in the pipe.
    if (ended.kind !== 'frame' || ended.frame.kind !== 'result') await this.gone
    this.#log.add(reply.noise())
    // V8 ends the process when its heap is full, and logs that.
    const isOutOfMemory = ended.kind === 'died' && this.#log.ranOutOfMemory
    return { ending: isOutOfMemory ? { kind: 'memory' } : ended, logs: this.#log.lines() }
  }

  #send(job: Job, nonce: string): void {
    const guestJob: GuestJob = {
      nonce,
      code: Buffer.from(job.compiled).toString('base64'),
      input: job.input,
      context: job.context,
      logBytes: LIMITS.functionLogBytesMax,
      resultBytesMax: LIMITS.functionResultBytesMax,
    }
    const text = Buffer.from(JSON.stringify(guestJob))
    this.#child.stdin.write(Buffer.concat([Buffer.from(`${text.length}\n`), text]))
  }

  /** Resolves with the first of: a reply, the timeout, the memory limit, too much output, the end of the process, an abort. */
  async #ending(job: Job, reply: Reply): Promise<Ending> {
    const { promise, resolve } = Promise.withResolvers<Ending>()
    const clock = setTimeout(() => resolve({ kind: 'timeout' }), job.timeoutMs)
    const limitKb = (this.memoryMb + LIMITS.functionMemoryBaseMb) * 1_024
    const watch = setInterval(() => {
      if (residentKb(this.#enginePid) > limitKb) resolve({ kind: 'memory' })
    }, LIMITS.functionMemoryPollMs)
    const abort = () => resolve({ kind: 'given_up' })
    job.signal.addEventListener('abort', abort)
    if (job.signal.aborted) abort()
    this.#child.stdout.on('data', (chunk: Buffer) => {
      const state = reply.take(chunk)
      if (state === 'too_large' || state === 'too_loud') resolve({ kind: state })
      else if (state !== undefined) resolve({ kind: 'frame', frame: state })
    })
    void this.gone.then((code) => resolve({ kind: 'died', code }))
    try {
      return await promise
    } finally {
      clearTimeout(clock)
      clearInterval(watch)
      job.signal.removeEventListener('abort', abort)
    }
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
    const late = setTimeout(() => resolve(''), LIMITS.functionStartMs)
    void this.gone.then(() => resolve(line))
    const firstLine = await promise
    clearTimeout(late)
    this.#child.stdout.off('data', read)
    const [, version, major] = /^ready ((\d+)\.[\w.+-]+)\n/.exec(firstLine) ?? []
    if (version === undefined) throw new Error('Deno does not start')
    if (Number(major) !== MAJOR) throw new Error(`Deno ${MAJOR} is needed, and this is ${version}`)
    this.#enginePid = this.#isolation.isWrapped ? childOf(this.#child.pid) : this.#child.pid
    if (this.#enginePid === undefined)
      throw new Error('Deno runs in a sandbox whose memory cannot be watched')
  }
}

/** The pid of the process that a sandbox has started. */
function childOf(pid: number | undefined): number | undefined {
  const [child] = pid === undefined ? [] : readFileSync(childrenOf(pid), 'latin1').trim().split(' ')
  return child ? Number(child) : undefined
}

/** Resident memory; 0 if it is unknown. It counts buffers, which V8's own limit does not. */
function residentKb(pid: number | undefined): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

export interface Frame {
  readonly kind: string
  readonly text: string
}

export type ReplyState = Frame | 'too_large' | 'too_loud' | undefined

/**
 * Stdout of one process. User code can write to it, too, so bytes before the frame are its output. A frame has the nonce
 * of this call, and its size is checked before a byte of it is stored.
 */
export class Reply {
  readonly #mark: Buffer
  #received: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#mark = Buffer.from(`\n${nonce} `)
  }

  /** Adds a chunk. @returns the frame when it is complete, or the reason why there will be none */
  take(chunk: Buffer): ReplyState {
    this.#received = Buffer.concat([this.#received, chunk])
    const at = this.#received.indexOf(this.#mark)
    if (at < 0) return this.#received.length > LIMITS.functionNoiseBytesMax ? 'too_loud' : undefined
    const start = at + this.#mark.length
    const end = this.#received.indexOf(10, start)
    if (end < 0) return this.#received.length - start > 64 ? 'too_loud' : undefined
    const [kind = '', size = ''] = this.#received.toString('latin1', start, end).split(' ')
    const bytes = /^[0-9]{1,15}$/.test(size) ? Number(size) : Number.POSITIVE_INFINITY
    if (bytes > LIMITS.functionResultBytesMax) return 'too_large'
    const from = end + 1
    if (this.#received.length < from + bytes) return undefined
    return { kind, text: this.#received.toString('utf8', from, from + bytes) }
  }

  /** Output before the frame. */
  noise(): Buffer {
    const at = this.#received.indexOf(this.#mark)
    return at < 0 ? this.#received : this.#received.subarray(0, at)
  }
}

/** Output of a function; the last 64 KiB are kept. */
export class Log {
  #tail: Buffer = Buffer.alloc(0)
  #bytes = 0

  /** @returns false once the process has written more than it may */
  add(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    this.#tail = Buffer.concat([this.#tail, chunk])
    if (this.#tail.length > LIMITS.functionLogBytesMax)
      this.#tail = this.#tail.subarray(this.#tail.length - LIMITS.functionLogBytesMax)
    return this.#bytes <= LIMITS.functionNoiseBytesMax + LIMITS.functionLogBytesMax
  }

  get ranOutOfMemory(): boolean {
    return /Fatal JavaScript out of memory|heap limit/.test(this.#tail.toString())
  }

  /** The last lines without the engine's crash report, which contains addresses and paths of the host. */
  lines(): string[] {
    const output = this.#tail
      .toString()
      .split(/\n*<--- Last few GCs --->|\n*#\n# Fatal/)[0]
      ?.replaceAll(/data:(?:application|text)\/javascript;base64,[^\s:]*/g, 'function.ts')
    const text = Buffer.from((output ?? '').trimEnd())
    const shown = text.subarray(Math.max(0, text.length - LIMITS.functionLogShownBytesMax)).toString()
    return shown === '' ? [] : shown.split('\n')
  }
}
