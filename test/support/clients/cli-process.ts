/** Runs a command of the CLI in a process of its own, which a test ends. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

const BOOTSTRAP = resolve('stack/bootstrap.mjs')

export interface RunningCommand {
  /** What it has printed so far. */
  stdout(): string
  /** Interrupts it, and waits for its end. */
  stop(): Promise<void>
}

/** @param args without `tenon` */
export function startCli(
  args: readonly string[],
  { env, callerDir }: { readonly env: NodeJS.ProcessEnv; readonly callerDir: string },
): RunningCommand {
  const child = spawn(process.execPath, [BOOTSTRAP, ...args], { env, cwd: callerDir })
  let printed = ''
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString()
  })
  const ended = once(child, 'close')
  return {
    stdout: () => printed,
    stop: async () => {
      child.kill('SIGINT')
      await ended
    },
  }
}
