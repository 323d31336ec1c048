/** Runs a command of the CLI in a process of its own, which a test ends. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

const BOOTSTRAP = resolve('stack/bootstrap.mjs')
const ESCAPE = '\u001b'

export interface RunningCommand {
  /** What it has printed so far. */
  stdout(): string
  stderr(): string
  /** Its exit code. */
  readonly ended: Promise<number | null>
  /** Interrupts it, and waits for its end. @returns its exit code */
  stop(): Promise<number | null>
}

/** @param args without `tenon` */
export function startCli(
  args: readonly string[],
  { env, callerDir }: { readonly env: NodeJS.ProcessEnv; readonly callerDir: string },
): RunningCommand {
  const child = spawn(process.execPath, [BOOTSTRAP, ...args], { env, cwd: callerDir })
  let [printed, messages] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    messages += chunk.toString()
  })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return {
    stdout: () => printed,
    stderr: () => messages,
    ended,
    stop: () => {
      child.kill('SIGINT')
      return ended
    },
  }
}

export interface TerminalCommand {
  /** The bytes that the terminal has got so far. */
  sent(): string
  /** The lines that it shows. */
  screen(): string[]
  readonly ended: Promise<number | null>
}

/** Runs a command on a pseudo-terminal of 120 columns and 40 rows, by `script` of util-linux. @param args without `tenon` */
export function startOnTerminal(args: readonly string[], env: NodeJS.ProcessEnv): TerminalCommand {
  const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`
  const command = `stty cols 120 rows 40 && exec ${[process.execPath, BOOTSTRAP, ...args].map(quote).join(' ')}`
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...env, TERM: 'xterm', SHELL: '/bin/sh' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let sent = ''
  child.stdout.on('data', (chunk: Buffer) => {
    sent += chunk.toString()
  })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return { sent: () => sent, screen: () => screenOf(sent), ended }
}

/** The sequences that the CLI sends: some lines up, erase what follows, and those without an effect on lines. */
const SEQUENCES = new RegExp(`${ESCAPE}\\[(?:(\\d+)A|(J)|[\\d;]*[mK])|[\\r\\n]|[^${ESCAPE}\\r\\n]+`, 'g')

/** What a terminal shows after these bytes. */
function screenOf(sent: string): string[] {
  const lines = ['']
  let row = 0
  for (const [token, up, erases] of sent.matchAll(SEQUENCES)) {
    if (up !== undefined) row -= Number(up)
    else if (erases) lines.splice(row, lines.length, '')
    else if (token === '\n') lines[++row] ??= ''
    else if (token !== '\r' && !token.startsWith(ESCAPE)) lines[row] += token
  }
  return lines.map((line) => line.trimEnd()).filter(Boolean)
}
