/** What every server of the stack looks like from outside: a name, a variable that replaces it, and a start. */

import { binary } from './binaries.mjs'
import type { BinaryName } from './pins.mjs'
import { BINARIES } from './pins.mjs'
import type { Ports } from './ports.ts'
import type { Secrets, ServerInfo, ServerName } from './state.ts'
import type { Supervisor } from './supervise.ts'

export type Phase = 'fetching' | 'starting' | 'ready' | 'external'

export interface Started {
  readonly info: ServerInfo
  /** Settings for the platform's processes. */
  readonly env: Readonly<Record<string, string>>
  /** Removes what lies outside the data folder; called when everything has stopped. */
  readonly dispose?: () => Promise<void>
}

export interface StartContext {
  readonly dir: string
  readonly ephemeral: boolean
  readonly env: NodeJS.ProcessEnv
  readonly secrets: Secrets
  readonly ports: Ports
  readonly supervisor: Supervisor
  readonly signal: AbortSignal
  readonly progress: (phase: Phase, detail: string) => void
}

export interface Server {
  readonly name: ServerName
  readonly title: string
  /** A set variable means: it runs elsewhere, start nothing. */
  readonly urlVariable: string
  readonly start: (context: StartContext) => Promise<Started>
  /** Checks that an external server answers and reads its version. */
  readonly inspect: (url: string, env: NodeJS.ProcessEnv) => Promise<Started>
}

/** The path of a server's program; fetching it is shown as progress. */
export async function program(name: BinaryName, context: StartContext): Promise<string> {
  const { path } = await binary(name, {
    env: context.env,
    signal: context.signal,
    onFetch: (what) => context.progress('fetching', what),
  })
  context.progress('starting', BINARIES[name].title)
  return path
}

/** One line on why something does not answer; never holds a URL, which may carry a password. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : (error.message.split('\n')[0] ?? error.name)
}

/** host:port of a URL, safe to be shown. */
export function hostOf(url: string): string {
  try {
    return new URL(url).host
  } catch {
    return 'an address that is not a URL'
  }
}
