/** Runs one process in its own process group with a clean environment and a log file; a reaper ends groups of a dead parent. */

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { identify, type ProcessIdentity } from './lock.mjs'

const LOG_BYTES_MAX = 20 * 1024 * 1024
/** Time for a killed group to disappear; only zombies that init does not collect take longer. */
const GONE_MS = 200
/** GOGC: how often servers written in Go collect garbage. */
const INHERITED = ['PATH', 'HOME', 'LANG', 'TZ', 'GOGC']

export interface LaunchOptions {
  readonly command: string
  readonly args: readonly string[]
  /** Besides PATH, HOME, LANG, TZ and GOGC, the only variables. */
  readonly env?: Readonly<Record<string, string>>
  readonly logFile: string
  readonly uid?: number
  readonly gid?: number
  readonly cwd?: string
  readonly stopSignal?: NodeJS.Signals
}

export class Launch {
  /** Resolves with how it ended, such as `exited with code 1`; never rejects. */
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
      // In its own process group, grandchildren die with it, and Ctrl-C reaches only this process.
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

  /** Sends a signal and kills the group at the deadline; resolves when it is dead. */
  async end(signal: NodeJS.Signals, deadline: number): Promise<void> {
    if (!this.#running) return
    this.#signal(signal)
    const timer = setTimeout(() => this.#signal('SIGKILL'), Math.max(deadline - Date.now(), 0))
    await this.exited
    clearTimeout(timer)
  }

  /** Returns the last lines that this run has logged. */
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
        void this.#killGroup().then(() => ended(how))
      })
    })
  }

  /** Kills the rest of the group, which would keep its ports. */
  async #killGroup(): Promise<void> {
    const deadline = Date.now() + GONE_MS
    while (this.#signal('SIGKILL') && Date.now() < deadline) await delay(5)
  }

  /** @returns false if the group is empty */
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

/** Opens a log to append, and rotates it above 20 MiB. */
function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true })
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size > LOG_BYTES_MAX) renameSync(path, `${path}.1`)
  return openSync(path, 'a', 0o600)
}

/** A shell script: reads `+ group signal` and `- group`; at the end of input, signals the rest, and kills it after 3 s. */
const SCRIPT = `
trap '' INT TERM HUP
list=''
while read -r op group signal; do
  case $op in
    +) list="$list $group:$signal" ;;
    -) kept=''
       for item in $list; do [ "\${item%%:*}" = "$group" ] || kept="$kept $item"; done
       list=$kept ;;
  esac
done
for item in $list; do kill -s "\${item#*:}" -- "-\${item%%:*}" 2>/dev/null; done
tries=30
while [ $tries -gt 0 ]; do
  alive=''
  for item in $list; do kill -s 0 -- "-\${item%%:*}" 2>/dev/null && alive=yes; done
  [ -z "$alive" ] && exit 0
  sleep 0.1
  tries=$((tries - 1))
done
for item in $list; do kill -s KILL -- "-\${item%%:*}" 2>/dev/null; done
`

/** Ends the registered process groups if this process dies: a shell notices that by a closed pipe. */
export class Reaper {
  readonly #groups = new Map<number, NodeJS.Signals>()
  #process: ChildProcess
  #closing = false

  constructor() {
    this.#process = this.#spawn()
  }

  /** Identifies the shell, so that a new start in the same folder can wait for it. */
  identity(): ProcessIdentity | undefined {
    return this.#process.pid === undefined ? undefined : identify(this.#process.pid)
  }

  add(group: number, signal: NodeJS.Signals): void {
    this.#groups.set(group, signal)
    this.#send(`+ ${group} ${signal.slice('SIG'.length)}`)
  }

  remove(group: number): void {
    if (this.#groups.delete(group)) this.#send(`- ${group}`)
  }

  /** Closes the pipe: the shell ends the groups that are still registered. */
  async close(): Promise<void> {
    this.#closing = true
    const reaper = this.#process
    if (reaper.exitCode !== null || reaper.signalCode !== null || reaper.pid === undefined) return
    const exited = new Promise<void>((resolve) => reaper.once('exit', () => resolve()))
    reaper.ref()
    reaper.stdin?.end()
    await exited
  }

  #spawn(): ChildProcess {
    const reaper = spawn('sh', ['-c', SCRIPT], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
    })
    reaper.on('error', () => {})
    reaper.stdin?.on('error', () => {})
    // Neither the shell nor its pipe may keep this process alive.
    reaper.unref()
    if (reaper.stdin !== null && 'unref' in reaper.stdin)
      (reaper.stdin as unknown as { unref(): void }).unref()
    reaper.once('exit', () => this.#replace())
    return reaper
  }

  #replace(): void {
    if (this.#closing) return
    this.#process = this.#spawn()
    for (const [group, signal] of this.#groups) this.add(group, signal)
  }

  #send(line: string): void {
    this.#process.stdin?.write(`${line}\n`)
  }
}
