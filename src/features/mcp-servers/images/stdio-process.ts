/** A process that speaks MCP over its standard input and output: started without a shell, bounded, and killed as a group. */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { Problem } from '../../../core/problem.ts'
import { killGroup } from '../../../infra/kill-group.ts'
import { MCP_LIMITS } from '../limits.ts'
import type { RunningServer, ServerListener } from './runtime.ts'

/** Variables of the platform that engines need. Its other ones hold secrets. */
const PASSED = ['PATH', 'HOME', 'XDG_RUNTIME_DIR', 'DOCKER_HOST', 'DOCKER_CONFIG', 'CONTAINER_HOST']

/** The environment of engines and of servers for development. */
export const hostEnv = (): Record<string, string> =>
  Object.fromEntries(
    PASSED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )

export interface Command {
  readonly program: string
  readonly args: readonly string[]
}

/** How a process ended by itself. `errors` is the end of what it wrote to its standard error. */
export interface ProcessEnd {
  readonly code: number | null
  readonly errors: string
}

type Ended = (end: ProcessEnd) => Problem

export class StdioProcess implements RunningServer {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #listener: ServerListener
  readonly #exited: Promise<void>
  readonly #lines = new Lines()
  #errors = Buffer.alloc(0)
  #isStopped = false

  /**
   * @param ended makes the problem of a process that ended by itself
   * @throws Problem `containers_unavailable` if the program cannot be started
   */
  static async start(command: Command, listener: ServerListener, ended: Ended): Promise<StdioProcess> {
    const started = new StdioProcess(command, listener, ended)
    await new Promise<void>((done, fail) => {
      started.#child.once('spawn', done)
      started.#child.once('error', (cause) => fail(notStarted(command, cause)))
    })
    return started
  }

  private constructor({ program, args }: Command, listener: ServerListener, ended: Ended) {
    this.#listener = listener
    this.#child = spawn(program, args, {
      cwd: '/',
      env: hostEnv(),
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
      shell: false,
    })
    // A dead process takes no input; its end is reported by `close`.
    this.#child.stdin.on('error', () => {})
    this.#child.stdout.on('data', (chunk: Buffer) => this.#take(chunk))
    this.#child.stderr.on('data', (chunk: Buffer) => {
      this.#errors = Buffer.concat([this.#errors, chunk]).subarray(-MCP_LIMITS.images.errorBytesMax)
    })
    this.#child.once('close', (code) => {
      if (!this.#isStopped) this.#end(ended({ code, errors: this.#errors.toString() }))
    })
    // Not `close`: a process that has left the group may keep the output open.
    this.#exited = new Promise((done) => {
      this.#child.once('error', () => done())
      this.#child.once('exit', () => done())
    })
  }

  send(message: string): void {
    this.#child.stdin.write(`${message}\n`)
  }

  stop(): Promise<void> {
    this.#isStopped = true
    killGroup(this.#child.pid)
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) stream.destroy()
    return this.#exited
  }

  #take(chunk: Buffer): void {
    if (this.#isStopped) return
    const received = this.#lines.take(chunk)
    if (typeof received === 'string') this.#end(tooMuch(received))
    else for (const line of received) if (!this.#isStopped) this.#listener.onMessage(line)
  }

  #end(problem: Problem): void {
    void this.stop()
    this.#listener.onEnd(problem)
  }
}

/** Splits output into lines. Chunks of an unfinished line are kept apart, so that a long one is copied once. */
class Lines {
  #open: Buffer[] = []
  #openBytes = 0
  #bytes = 0
  #count = 0

  /** @returns complete lines that are not blank; a text that says what there is too much of */
  take(chunk: Buffer): string[] | string {
    const { messageBytesMax, outputBytesMax, messagesMax } = MCP_LIMITS.images
    this.#bytes += chunk.length
    if (this.#bytes > outputBytesMax) return `more than ${outputBytesMax} bytes during one call`
    const lines: string[] = []
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      this.#keep(chunk.subarray(from, at))
      from = at + 1
      if (this.#openBytes > messageBytesMax) return `a message of more than ${messageBytesMax} bytes`
      const line = Buffer.concat(this.#open).toString().trim()
      this.#open = []
      this.#openBytes = 0
      this.#count += 1
      if (this.#count > messagesMax) return `more than ${messagesMax} messages during one call`
      if (line !== '') lines.push(line)
    }
    this.#keep(chunk.subarray(from))
    return this.#openBytes > messageBytesMax ? `a message of more than ${messageBytesMax} bytes` : lines
  }

  #keep(part: Buffer): void {
    this.#open.push(part)
    this.#openBytes += part.length
  }
}

const tooMuch = (what: string) =>
  new Problem('upstream_invalid', { detail: `The MCP server of the image was stopped: it wrote ${what}.` })

const notStarted = ({ program }: Command, cause: unknown) =>
  new Problem('containers_unavailable', {
    detail: `The program ${program.split('/').at(-1)} cannot be started on the machine of the platform.`,
    cause,
  })
