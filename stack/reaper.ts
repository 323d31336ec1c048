/** Ends the children of a dead parent: a small shell, apart from us, that learns of our death by a closed pipe. */

import { type ChildProcess, spawn } from 'node:child_process'
import { identify, type ProcessIdentity } from './lock.mjs'

/** Reads `+ group signal` and `- group`; at the end of input it signals what is left, and kills after 3 s. */
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

/** Knows the process groups that must not outlive this process. */
export class Reaper {
  readonly #groups = new Map<number, NodeJS.Signals>()
  #process: ChildProcess
  #closing = false

  constructor() {
    this.#process = this.#spawn()
  }

  /** A new start in the same folder waits until this process is gone. */
  identity(): ProcessIdentity | undefined {
    return this.#process.pid === undefined ? undefined : identify(this.#process.pid)
  }

  add(group: number, signal: NodeJS.Signals): void {
    this.#groups.set(group, signal)
    this.#tell(`+ ${group} ${signal.slice('SIG'.length)}`)
  }

  remove(group: number): void {
    if (this.#groups.delete(group)) this.#tell(`- ${group}`)
  }

  /** Lets it go; groups that are still known are ended by it. */
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
    // Neither the shell nor its pipe may keep us alive.
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

  #tell(line: string): void {
    this.#process.stdin?.write(`${line}\n`)
  }
}
