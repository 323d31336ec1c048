/** Runs functions in a pool of prestarted processes; each call consumes one, and its end becomes a result or a Problem. */

import { isTooDeep } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import type { GuestError } from './guest-program.ts'
import { type Described, describeLayers, findIsolation, type Isolation } from './isolation.ts'
import { type Frame, FunctionProcess, type Job, type Report } from './process.ts'

export class Functions {
  readonly #deno: string | undefined
  /** Unused processes of the default size; another size starts a new process. */
  #warm: FunctionProcess[] = []
  readonly #alive = new Set<FunctionProcess>()
  #isolation: Promise<Isolation> | undefined
  #closed = false

  /** @param deno path of the program; undefined if there is none */
  constructor(deno: string | undefined) {
    this.#deno = deno
  }

  /** Starts unused processes, so that the first calls need not wait for one. */
  async warmUp(): Promise<void> {
    if (this.#deno === undefined) return
    const isolation = await this.#isolationOf(this.#deno)
    while (!this.#closed && this.#warm.length < LIMITS.functionWarmProcesses) {
      const blank = this.#spawn(this.#deno, LIMITS.functionMemoryMb.default, isolation)
      this.#warm.push(blank)
      // A process that dies while it waits is not used.
      void blank.gone.then(() => {
        this.#warm = this.#warm.filter((each) => each !== blank)
      })
    }
  }

  /**
   * Runs code once, in a process of its own.
   * @returns its result as JSON; `null` for undefined
   * @throws Problem `function_error`, `function_timeout`, `function_out_of_memory`, `function_output_too_large`,
   *   `run_cut_off`; each with `logs`, the last lines that it printed. `functions_unavailable` before it was run.
   */
  async run(job: Job): Promise<Json> {
    const taken = await this.#take(job.memoryMb)
    try {
      return resultOf(await taken.run(job), job)
    } finally {
      // After the call, since a starting process would compete with it.
      void this.warmUp()
    }
  }

  /** Ends all processes. */
  async close(): Promise<void> {
    this.#closed = true
    const alive = [...this.#alive]
    for (const each of alive) each.kill()
    await Promise.all(alive.map((each) => each.gone))
  }

  async #take(memoryMb: number): Promise<FunctionProcess> {
    if (this.#deno === undefined) throw functionsUnavailable('there is no Deno on this worker')
    const blank = memoryMb === LIMITS.functionMemoryMb.default ? this.#warm.shift() : undefined
    const taken = blank ?? this.#spawn(this.#deno, memoryMb, await this.#isolationOf(this.#deno))
    await taken.ready.catch((cause: unknown) => {
      throw functionsUnavailable(cause instanceof Error ? cause.message : 'Deno does not start')
    })
    return taken
  }

  /** A description of the layers around each process; undefined without Deno. */
  async layers(): Promise<Described | undefined> {
    return this.#deno === undefined ? undefined : describeLayers((await this.#isolationOf(this.#deno)).layers)
  }

  /** Determined when the first process starts, then cached. */
  #isolationOf(deno: string): Promise<Isolation> {
    this.#isolation ??= findIsolation(deno)
    return this.#isolation
  }

  #spawn(deno: string, memoryMb: number, isolation: Isolation): FunctionProcess {
    if (this.#closed) throw new Problem('run_cut_off', { detail: 'The worker is stopping.' })
    const made = new FunctionProcess(deno, memoryMb, isolation)
    this.#alive.add(made)
    void made.gone.then(() => this.#alive.delete(made))
    return made
  }
}

const functionsUnavailable = (why: string) =>
  new Problem('functions_unavailable', { detail: `Functions cannot be run: ${why}.` })

/** @throws Problem for every ending but a result */
function resultOf({ ending, logs }: Report, job: Job): Json {
  const members = { logs }
  switch (ending.kind) {
    case 'frame':
      return resultOfFrame(ending.frame, job, members)
    case 'timeout':
      throw new Problem('function_timeout', {
        detail: `It had not returned after ${job.timeoutMs} ms.`,
        members,
      })
    case 'memory':
      throw outOfMemory(job, members)
    case 'too_large': {
      const detail = `The result has more than ${LIMITS.functionResultBytesMax} bytes.`
      throw new Problem('function_output_too_large', { detail, members })
    }
    case 'too_loud':
      throw failed(`It printed more than ${LIMITS.functionNoiseBytesMax} bytes.`, members)
    case 'given_up':
      throw new Problem('run_cut_off', { detail: 'The worker was stopped while the function ran.', members })
    case 'died':
      throw failed('Its process ended before it returned.', members)
  }
}

function resultOfFrame(frame: Frame, job: Job, members: Members): Json {
  const value = parsed(frame.text)
  if (frame.kind === 'result' && value !== undefined) {
    if (isTooDeep(value))
      throw failed(`Its result is nested deeper than ${LIMITS.runInputDepthMax}.`, members)
    return value
  }
  const { name, message, line, column, memory } = (value ?? {}) as GuestError
  if (memory === true) throw outOfMemory(job, members)
  const error = { name: textOf(name), ...(isPosition(line) && isPosition(column) && { line, column }) }
  throw failed(textOf(message) || textOf(name) || 'It threw.', { ...members, error })
}

type Members = Readonly<Record<string, unknown>>

const failed = (detail: string, members: Members) => new Problem('function_error', { detail, members })

const outOfMemory = (job: Job, members: Members) =>
  new Problem('function_out_of_memory', { detail: `It may have ${job.memoryMb} MB.`, members })

const textOf = (value: unknown) =>
  typeof value === 'string' ? value.slice(0, LIMITS.functionMessageCharsMax) : ''
const isPosition = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}
