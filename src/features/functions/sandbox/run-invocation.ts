/** Runs one invocation in a process, and limits its time, memory and output. */

import { randomBytes } from 'node:crypto'
import { FUNCTION_LIMITS } from '../limits.ts'
import { FrameReader, type GuestFrame, type Output } from './frames.ts'
import type { GuestJob } from './guest-program.ts'
import { HostCalls } from './host-calls.ts'
import type { Invocation } from './invocation.ts'
import { InvocationLog, RawOutput } from './output-lines.ts'
import type { FunctionProcess } from './process.ts'

const { sandbox: limits } = FUNCTION_LIMITS

/**
 * The end of an invocation. `result` and `error` have JSON, unverified. `broken`: it has broken the protocol. `died`: the
 * process ended before it replied.
 */
type Ending =
  | { readonly kind: 'result' | 'error'; readonly text: string }
  | { readonly kind: 'timeout' | 'memory' | 'too_large' | 'too_loud' | 'broken' | 'given_up' | 'died' }

export interface Report {
  readonly ending: Ending
  readonly logs: readonly string[]
  readonly memoryMb: number
  readonly durationMs: number
  /** True if the code left nothing open, so that the process may serve another invocation. */
  readonly isClean: boolean
  /** False if the process sent nothing for this invocation, so none of its code has run. */
  readonly hasBegun: boolean
}

/** Limits that the program in the process keeps by itself. The worker enforces the same. */
const GUEST_LIMITS = {
  logBytes: FUNCTION_LIMITS.logBytesMax,
  resultBytesMax: FUNCTION_LIMITS.resultBytesMax,
  callsOpenMax: limits.callsOpenMax,
  bytesOpenMax: limits.bytesOpenMax,
  callBytesMax: limits.callBytesMax,
  bodyBytesMax: limits.bodyBytesMax,
  chunkBytesMax: limits.chunkBytesMax,
  logLineBytesMax: limits.logLineBytesMax,
  logLineCostBytes: limits.logLineCostBytes,
}

/** Sends input to a process that is ready and has the code, and waits for the end. Never rejects. */
export function runInvocation(process: FunctionProcess, invocation: Invocation): Promise<Report> {
  return new InvocationRun(process, invocation).run()
}

class InvocationRun {
  readonly #process: FunctionProcess
  readonly #invocation: Invocation
  readonly #nonce = randomBytes(16)
  readonly #reader = new FrameReader(this.#nonce)
  readonly #ended = Promise.withResolvers<Ending>()
  readonly #calls: HostCalls
  readonly #log: InvocationLog
  readonly #stdout = new RawOutput((text) => this.#log.add('info', text))
  readonly #stderr = new RawOutput((text) => this.#log.add('error', text))
  #hasBegun = false
  #hasEnded = false
  #logBytes = 0
  #memoryKb = 0

  constructor(process: FunctionProcess, invocation: Invocation) {
    this.#process = process
    this.#invocation = invocation
    this.#calls = new HostCalls(invocation, (...frame) => process.send(...frame))
    this.#log = new InvocationLog((line) => invocation.host.log(line))
  }

  async run(): Promise<Report> {
    const { timeoutMs, signal } = this.#invocation
    const clock = setTimeout(() => this.#end({ kind: 'timeout' }), timeoutMs)
    const watch = setInterval(() => this.#measure(), FUNCTION_LIMITS.memoryPollMs)
    const abort = () => this.#end({ kind: 'given_up' })
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    void this.#process.gone.then(() => this.#end({ kind: 'died' }))
    this.#process.listen({
      stdout: (chunk) => this.#takeStdout(chunk),
      stderr: (chunk) => {
        if (!this.#stderr.take(chunk)) this.#end({ kind: 'too_loud' })
      },
    })
    const startedMs = performance.now()
    if (!this.#hasEnded) this.#start()
    const ending = await this.#ended.promise
    const durationMs = performance.now() - startedMs
    clearTimeout(clock)
    clearInterval(watch)
    signal.removeEventListener('abort', abort)
    return this.#report(ending, durationMs)
  }

  #start(): void {
    const { kind, input, context } = this.#invocation
    const nonce = this.#nonce.toString('hex')
    const job: GuestJob = { nonce, kind, input, context, limits: GUEST_LIMITS }
    this.#process.resume()
    void this.#process.send('invoke', 0, JSON.stringify(job))
  }

  async #report(ending: Ending, durationMs: number): Promise<Report> {
    this.#measure()
    const isClean =
      (ending.kind === 'result' || ending.kind === 'error') &&
      this.#calls.openCount === 0 &&
      this.#process.isAlive
    this.#calls.close()
    if (isClean) this.#process.stop()
    else this.#process.kill()
    // The last lines may still be in the pipe.
    if (!isClean && ending.kind !== 'result') await this.#process.gone
    // Lines that it wrote to stderr before the result are read in the next turn of the event loop.
    else for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
    this.#process.listen(undefined)
    this.#stdout.flush()
    this.#stderr.flush()
    // V8 ends the process when its heap is full, and logs that.
    const isOutOfMemory = ending.kind === 'died' && this.#stderr.ranOutOfMemory
    return {
      ending: isOutOfMemory ? { kind: 'memory' } : ending,
      logs: this.#log.lines(),
      memoryMb: Math.ceil(this.#memoryKb / 1_024),
      durationMs,
      isClean,
      hasBegun: this.#hasBegun,
    }
  }

  /** The first ending counts. */
  #end(ending: Ending): void {
    this.#hasEnded = true
    this.#ended.resolve(ending)
  }

  #measure(): void {
    this.#memoryKb = Math.max(this.#memoryKb, this.#process.residentKb())
    if (this.#memoryKb > (this.#process.memoryMb + FUNCTION_LIMITS.memoryBaseMb) * 1_024)
      this.#end({ kind: 'memory' })
  }

  #takeStdout(chunk: Buffer): void {
    if (this.#hasEnded) return
    for (const output of this.#reader.take(chunk)) {
      this.#takeOutput(output)
      if (this.#hasEnded) return
    }
  }

  #takeOutput(output: Output): void {
    if ('broken' in output) this.#end({ kind: output.broken === 'too_large' ? 'too_large' : 'broken' })
    else if ('frame' in output) this.#takeFrame(output.frame)
    else if (!this.#stdout.take(output.noise)) this.#end({ kind: 'too_loud' })
  }

  #takeFrame(frame: GuestFrame): void {
    const isFirst = !this.#hasBegun
    this.#hasBegun = true
    if (isFirst && frame.kind === 'began') return
    if (frame.kind === 'result' || frame.kind === 'error')
      this.#end({ kind: frame.kind, text: frame.json.toString() })
    else if (frame.kind === 'log') this.#takeLine(frame)
    else if (!this.#calls.take(frame)) this.#end({ kind: 'broken' })
  }

  #takeLine({ json, bytes }: GuestFrame): void {
    const level = json.toString('latin1')
    this.#logBytes += bytes.length + limits.logLineCostBytes
    if (!isLevel(level)) this.#end({ kind: 'broken' })
    // The program in the process sends no line after the limit.
    else if (this.#logBytes > 2 * FUNCTION_LIMITS.logBytesMax) this.#end({ kind: 'too_loud' })
    else this.#log.add(level, bytes.toString())
  }
}

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
const isLevel = (level: string): level is (typeof LEVELS)[number] =>
  (LEVELS as readonly string[]).includes(level)
