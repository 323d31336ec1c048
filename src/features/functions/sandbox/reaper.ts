/**
 * Kills the processes of functions if the worker dies: a stopped process does not notice that its stdin was closed, and a
 * busy one does not look. A shell keeps their list, and acts when its own stdin is closed.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'

const SCRIPT = `
pids=
while read -r change pid; do
  case $change in
    +) pids="$pids $pid " ;;
    -) pids="\${pids%% $pid *} \${pids#* $pid }" ;;
  esac
done
for pid in $pids; do kill -9 -- "-$pid"; done
`

export class Reaper {
  #shell: ChildProcess | undefined
  #closed = false

  /** Watches a process group until {@link forget}. */
  watch(pid: number | undefined): void {
    if (pid !== undefined) this.#tell(`+ ${pid}`)
  }

  forget(pid: number | undefined): void {
    if (pid !== undefined) this.#tell(`- ${pid}`)
  }

  /** Ends the shell with all processes that it still watches. */
  close(): void {
    this.#closed = true
    this.#shell?.stdin?.end()
  }

  #tell(line: string): void {
    if (this.#closed) return
    this.#shell ??= start()
    this.#shell.stdin?.write(`${line}\n`)
  }
}

function start(): ChildProcess {
  // Detached, so that an interrupt at the terminal does not end it before the worker.
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    ...{ cwd: '/', env: {}, detached: true },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  shell.on('error', () => {})
  shell.stdin?.on('error', () => {})
  shell.unref()
  // The types say less than what it is.
  ;(shell.stdin as Socket | null)?.unref()
  return shell
}
