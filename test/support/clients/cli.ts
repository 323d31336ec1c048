/**
 * Runs commands of the CLI in the test's process: a process of its own takes 0.7 s of processor time to start. Signals,
 * pipes and the entry points are tested with processes.
 */

import { Readable } from 'node:stream'
import { inject, vi } from 'vitest'
import { createProgram } from '../../../src/cli/program.ts'
import type { TestWorkspace } from '../fixtures/tenants.ts'

export interface EndedCommand {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

interface CommandOptions {
  /** The whole environment of the command. */
  readonly env: NodeJS.ProcessEnv
  /** Folder of the caller, to which paths in arguments are relative. */
  readonly callerDir?: string
  /** Working directory, which may have an `.env.local`; by default the project. */
  readonly workingDir?: string
  readonly input?: string
}

/** Environment of an operator of the workspace, who also has its service key. */
export function operatorEnv({ workspaceId, service }: TestWorkspace): NodeJS.ProcessEnv {
  const { url, clientId, clientSecret } = inject('tenon')
  return {
    ...process.env,
    TENON_URL: url,
    TENON_CLIENT_ID: clientId,
    TENON_CLIENT_SECRET: clientSecret,
    TENON_WORKSPACE_ID: workspaceId,
    TENON_SERVICE_KEY: service['apikey'],
    TENON_QUIET: '1',
  }
}

/** Commands share the streams and the environment of the process, so one runs at a time. */
let lastCommand: Promise<unknown> = Promise.resolve()

/** Runs a command to its end; any exit code is a result. @param args without `tenon` */
export function runCommand(args: readonly string[], options: CommandOptions): Promise<EndedCommand> {
  const ended = lastCommand.then(() => runAlone(args, options))
  lastCommand = ended.catch(() => {})
  return ended
}

/** Runs work of the CLI that is no command in the environment of one. */
export function runInEnvironment<T>({ env, callerDir }: CommandOptions, work: () => Promise<T>): Promise<T> {
  const ended = lastCommand.then(async () => {
    const before = process.env
    process.env = { ...env, TENON_CALLER_CWD: callerDir ?? process.cwd() }
    return work().finally(() => {
      process.env = before
    })
  })
  lastCommand = ended.catch(() => {})
  return ended
}

/** Thrown by `process.exit`, which commander calls after help and usage errors. */
class Exit extends Error {}

async function runAlone(
  args: readonly string[],
  { env, callerDir, workingDir, input = '' }: CommandOptions,
): Promise<EndedCommand> {
  const before = { env: process.env, exitCode: process.exitCode, dir: process.cwd() }
  const [stdout, stderr] = [captureWrites('stdout'), captureWrites('stderr')]
  const exit = vi.spyOn(process, 'exit').mockImplementation((code) => {
    process.exitCode = code
    throw new Exit()
  })
  const stdin = vi.spyOn(process, 'stdin', 'get').mockReturnValue(stdinOf(input))
  try {
    if (workingDir !== undefined) process.chdir(workingDir)
    process.env = { ...env, TENON_CALLER_CWD: callerDir ?? process.cwd() }
    process.exitCode = undefined
    await createProgram()
      .parseAsync([...args], { from: 'user' })
      .catch((error: unknown) => {
        if (!(error instanceof Exit)) throw error
      })
    return { code: Number(process.exitCode ?? 0), stdout: stdout.text(), stderr: stderr.text() }
  } finally {
    process.env = before.env
    process.exitCode = before.exitCode
    process.chdir(before.dir)
    for (const replaced of [stdout, stderr]) replaced.restore()
    for (const replaced of [exit, stdin]) replaced.mockRestore()
  }
}

function captureWrites(name: 'stdout' | 'stderr'): { text(): string; restore(): void } {
  const chunks: Buffer[] = []
  const write = vi.spyOn(process[name], 'write').mockImplementation((chunk, encoding?, written?) => {
    chunks.push(Buffer.from(chunk))
    const callback = typeof encoding === 'function' ? encoding : written
    callback?.()
    return true
  })
  return { text: () => Buffer.concat(chunks).toString(), restore: () => write.mockRestore() }
}

/** The type of `process.stdin`, of which commands only read. */
const stdinOf = (input: string) => Readable.from([Buffer.from(input)]) as typeof process.stdin
