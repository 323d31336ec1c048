/** Runs one call in one Deno process without permissions, limits its time, memory and output, and kills it. */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { LIMITS } from '../../../core/limits.ts'
import { GUEST_URL, type GuestJob } from './guest-program.ts'
import { childrenOf, type Isolation, killGroup } from './isolation.ts'

export interface Job {
  /** JavaScript; see compile.ts. */
  readonly compiled: string
  readonly input: unknown
  readonly timeoutMs: number
  readonly memoryMb: number
  /** Gives the call up. */
  readonly signal: AbortSignal
}

/** How a call ended. `died` is a process that ended before it answered. */
export type Ending =
  | { readonly kind: 'frame'; readonly frame: Frame }
  | { readonly kind: 'timeout' | 'memory' | 'too_large' | 'too_loud' | 'given_up' }
  | { readonly kind: 'died'; readonly code: number | null }

export interface Report {
  readonly ending: Ending
  readonly logs: readonly string[]
}

/** Deny beats any default that a later Deno may have. No remote code, no packages, no settings from files. */
const FLAGS = [
  'run',
  ...['prompt', 'remote', 'npm', 'config', 'lock', 'code-cache'].map((what) => `--no-${what}`),
  '--cached-only',
  ...['read', 'write', 'net', 'env', 'run', 'sys', 'ffi', 'import'].map((right) => `--deny-${right}`),
]

/**
 * Nothing can be kept there. Deno's `localStorage` and `caches` lie in its folder under the name of the main module,
 * which is the same for all tenants: in one folder they would read each other's.
 */
const NO_FOLDER = '/dev/null/none'
const ENV = { DENO_DIR: NO_FOLDER, DENO_NO_UPDATE_CHECK: '1', NO_COLOR: '1' }
const MAJOR = 2

export class FunctionProcess {
  /** Rejects where no usable Deno came up; the message is for operators. */
  readonly ready: Promise<void>
  readonly memoryMb: number
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #isolation: Isolation
  /** Of the engine itself, whose parent may be a sandbox. */
  #enginePid: number | undefined
  readonly #closed: Promise<number | null>
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
    // A process that is dead already takes no input; how it died is told by its end.
    this.#child.stdin.on('error', () => {})
    this.#closed = new Promise((done) => {
      this.#child.once('error', () => done(null))
      this.#child.once('close', (code) => done(code))
    })
    this.#child.stderr.on('data', (chunk: Buffer) => {
      if (!this.#log.add(chunk)) this.kill()
    })
    this.ready = this.#becomesReady()
    this.ready.catch(() => this.kill())
  }

  /** Resolves when the process is gone. */
  get gone(): Promise<unknown> {
    return this.#closed
  }

  /** With all its threads; it can have no children. */
  kill(): void {
    killGroup(this.#child.pid)
  }

  /** Runs the call and ends the process, whatever the code does. Never rejects once the process was ready. */
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
    if (ended.kind !== 'frame' || ended.frame.kind !== 'result') await this.#closed
    this.#log.add(reply.noise())
    return { ending: this.#judged(ended), logs: this.#log.lines() }
  }

  #send(job: Job, nonce: string): void {
    const guestJob: GuestJob = {
      nonce,
      code: Buffer.from(job.compiled).toString('base64'),
      input: job.input,
      logBytes: LIMITS.functionLogBytesMax,
      resultBytesMax: LIMITS.functionResultBytesMax,
    }
    const text = Buffer.from(JSON.stringify(guestJob))
    this.#child.stdin.write(Buffer.concat([Buffer.from(`${text.length}\n`), text]))
  }

  /** Whatever comes first: an answer, the clock, the memory, a flood, the process's own end, or our giving up. */
  async #ending(job: Job, reply: Reply): Promise<Ending> {
    const { promise, resolve } = Promise.withResolvers<Ending>()
    const clock = setTimeout(() => resolve({ kind: 'timeout' }), job.timeoutMs)
    const limitKb = (this.memoryMb + LIMITS.functionMemoryBaseMb) * 1_024
    const watch = setInterval(() => {
      if (residentKb(this.#enginePid) > limitKb) resolve({ kind: 'memory' })
    }, LIMITS.functionMemoryPollMs)
    const giveUp = () => resolve({ kind: 'given_up' })
    job.signal.addEventListener('abort', giveUp)
    if (job.signal.aborted) giveUp()
    this.#child.stdout.on('data', (chunk: Buffer) => {
      const heard = reply.take(chunk)
      if (heard === 'too_large' || heard === 'too_loud') resolve({ kind: heard })
      else if (heard !== undefined) resolve({ kind: 'frame', frame: heard })
    })
    void this.#closed.then((code) => resolve({ kind: 'died', code }))
    try {
      return await promise
    } finally {
      clearTimeout(clock)
      clearInterval(watch)
      job.signal.removeEventListener('abort', giveUp)
    }
  }

  /** V8 ends the process when its heap is full, and says so. */
  #judged(ending: Ending): Ending {
    return ending.kind === 'died' && this.#log.ranOutOfMemory ? { kind: 'memory' } : ending
  }

  /** The first line names Deno's version. It can be trusted, since user code has not been sent yet. */
  async #becomesReady(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<string>()
    let line = ''
    const read = (chunk: Buffer) => {
      line += chunk.toString('latin1')
      if (line.includes('\n')) resolve(line)
    }
    this.#child.stdout.on('data', read)
    const late = setTimeout(() => resolve(''), LIMITS.functionStartMs)
    void this.#closed.then(() => resolve(line))
    const said = await promise
    clearTimeout(late)
    this.#child.stdout.off('data', read)
    const [, version, major] = /^ready ((\d+)\.[\w.+-]+)\n/.exec(said) ?? []
    if (version === undefined) throw new Error('Deno does not start')
    if (Number(major) !== MAJOR) throw new Error(`Deno ${MAJOR} is needed, and this is ${version}`)
    this.#enginePid = this.#isolation.isWrapped ? childOf(this.#child.pid) : this.#child.pid
    if (this.#enginePid === undefined)
      throw new Error('Deno runs in a sandbox whose memory cannot be watched')
  }
}

/** The one process that a sandbox has started. */
function childOf(pid: number | undefined): number | undefined {
  const [child] = pid === undefined ? [] : readFileSync(childrenOf(pid), 'latin1').trim().split(' ')
  return child ? Number(child) : undefined
}

/** Resident memory; 0 where it cannot be known. V8's own limit does not count buffers, so this one does. */
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

export type Heard = Frame | 'too_large' | 'too_loud' | undefined

/**
 * Stdout of one process. User code owns it too, so bytes before the frame are just what it printed; a frame has the
 * nonce of this call, and its size is judged before one byte of it is kept.
 */
export class Reply {
  readonly #mark: Buffer
  #got: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#mark = Buffer.from(`\n${nonce} `)
  }

  /** Takes what came. @returns the frame when it is whole, or why there will be none */
  take(chunk: Buffer): Heard {
    this.#got = Buffer.concat([this.#got, chunk])
    const at = this.#got.indexOf(this.#mark)
    if (at < 0) return this.#got.length > LIMITS.functionNoiseBytesMax ? 'too_loud' : undefined
    const start = at + this.#mark.length
    const end = this.#got.indexOf(10, start)
    if (end < 0) return this.#got.length - start > 64 ? 'too_loud' : undefined
    const [kind = '', size = ''] = this.#got.toString('latin1', start, end).split(' ')
    const bytes = /^[0-9]{1,15}$/.test(size) ? Number(size) : Number.POSITIVE_INFINITY
    if (bytes > LIMITS.functionResultBytesMax) return 'too_large'
    const from = end + 1
    if (this.#got.length < from + bytes) return undefined
    return { kind, text: this.#got.toString('utf8', from, from + bytes) }
  }

  /** Output before the frame. */
  noise(): Buffer {
    const at = this.#got.indexOf(this.#mark)
    return at < 0 ? this.#got : this.#got.subarray(0, at)
  }
}

/** Output of a function; the last 64 KiB are kept. */
export class Log {
  #kept: Buffer = Buffer.alloc(0)
  #bytes = 0

  /** @returns whether it is still within what a process may write */
  add(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    this.#kept = Buffer.concat([this.#kept, chunk])
    if (this.#kept.length > LIMITS.functionLogBytesMax)
      this.#kept = this.#kept.subarray(this.#kept.length - LIMITS.functionLogBytesMax)
    return this.#bytes <= LIMITS.functionNoiseBytesMax + LIMITS.functionLogBytesMax
  }

  get ranOutOfMemory(): boolean {
    return /Fatal JavaScript out of memory|heap limit/.test(this.#text())
  }

  /** The last lines, without what the engine says when it dies: that has addresses and paths of the host. */
  lines(): string[] {
    const said = this.#text()
      .split(/\n*<--- Last few GCs --->|\n*#\n# Fatal/)[0]
      ?.replaceAll(/data:(?:application|text)\/javascript;base64,[^\s:]*/g, 'function.ts')
    const text = Buffer.from((said ?? '').trimEnd())
    const shown = text.subarray(Math.max(0, text.length - LIMITS.functionLogShownBytesMax)).toString()
    return shown === '' ? [] : shown.split('\n')
  }

  #text(): string {
    return this.#kept.toString()
  }
}
