/** One run of one process: its own process group, a clean environment, and a log file that outlives it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

const LOG_BYTES_MAX = 20 * 1024 * 1024
/** How long who was killed may take to be gone. Longer lasts only a corpse that init does not fetch. */
const GONE_MS = 200
const INHERITED = ['PATH', 'HOME', 'LANG', 'TZ']

export interface LaunchOptions {
  readonly command: string
  readonly args: readonly string[]
  /** Added to PATH, HOME, LANG and TZ, which are all that is inherited. */
  readonly env?: Readonly<Record<string, string>>
  readonly logFile: string
  readonly uid?: number
  readonly gid?: number
  readonly cwd?: string
  readonly stopSignal?: NodeJS.Signals
}

export class Launch {
  /** Resolves with how it ended, as the rest of a sentence; never rejects. */
  readonly exited: Promise<string>
  readonly #logFile: string
  readonly #logStart: number
  readonly #process: ChildProcess
  #running = true

  constructor(options: LaunchOptions) {
    this.#logFile = options.logFile
    const log = openLog(options.logFile)
    this.#logStart = fstatSync(log).size
    this.#process = spawn(options.command, options.args, {
      // A group of its own: grandchildren die with it, and Ctrl-C reaches us alone.
      detached: true,
      stdio: ['ignore', log, log],
      env: cleanEnvironment(options.env ?? {}),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      ...(options.uid !== undefined && { uid: options.uid }),
      ...(options.gid !== undefined && { gid: options.gid }),
    })
    closeSync(log)
    this.exited = this.#exit()
  }

  get pid(): number | undefined {
    return this.#running ? this.#process.pid : undefined
  }

  /** Asks it to stop and kills its group at the deadline; resolves when it is dead. */
  async end(signal: NodeJS.Signals, deadline: number): Promise<void> {
    if (!this.#running) return
    this.#signal(signal)
    const timer = setTimeout(() => this.#signal('SIGKILL'), Math.max(deadline - Date.now(), 0))
    await this.exited
    clearTimeout(timer)
  }

  /** The end of what this run has written. */
  lastLines(count: number): string {
    try {
      const text = readFileSync(this.#logFile).subarray(this.#logStart).toString('utf8')
      return text.trimEnd().split('\n').slice(-count).join('\n')
    } catch {
      return ''
    }
  }

  #exit(): Promise<string> {
    return new Promise((resolve) => {
      const ended = (how: string): void => {
        this.#running = false
        resolve(how)
      }
      this.#process.once('error', (error) => ended(`could not be started: ${error.message}`))
      this.#process.once('exit', (code, signal) => {
        const how = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
        void this.#clear().then(() => ended(how))
      })
    })
  }

  /** What it leaves in its group would hold its ports. */
  async #clear(): Promise<void> {
    const deadline = Date.now() + GONE_MS
    while (this.#signal('SIGKILL') && Date.now() < deadline) await delay(5)
  }

  /** @returns whether there was anybody in its group to hear it */
  #signal(signal: NodeJS.Signals): boolean {
    const group = this.#process.pid
    if (group === undefined || !this.#running) return false
    try {
      return process.kill(-group, signal)
    } catch {
      return false
    }
  }
}

function cleanEnvironment(own: Readonly<Record<string, string>>): Record<string, string> {
  const inherited = INHERITED.flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(inherited), ...own }
}

/** Appends; a log that grew large is set aside first, and the one before it forgotten. */
function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true })
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size > LOG_BYTES_MAX) renameSync(path, `${path}.1`)
  return openSync(path, 'a', 0o600)
}
