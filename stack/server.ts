/** The contract of a server of the stack, and the secrets, ports and running servers that an installation remembers. */

import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './binaries.mjs'
import type { ProcessIdentity } from './lock.mjs'
import type { BinaryName } from './pins.mjs'
import { BINARIES } from './pins.mjs'
import { onFreePorts, type Ports } from './ports.ts'
import type { Supervisor } from './supervise.ts'

export type Phase = 'fetching' | 'starting' | 'ready' | 'external'

export interface Started {
  readonly info: ServerInfo
  /** Settings for the platform's processes. */
  readonly env: Readonly<Record<string, string>>
  /** Removes files outside the data folder, after everything has stopped. */
  readonly dispose?: () => Promise<void>
}

export interface StartContext {
  readonly dir: string
  readonly ephemeral: boolean
  readonly env: NodeJS.ProcessEnv
  /** URL of the codec server that the Temporal UI uses. It is asked for each time, since the API starts later, perhaps on another port. */
  readonly codecEndpoint?: () => string
  readonly secrets: Secrets
  readonly ports: Ports
  readonly supervisor: Supervisor
  readonly signal: AbortSignal
  readonly progress: (phase: Phase, detail: string) => void
}

export interface Server {
  readonly name: ServerName
  readonly title: string
  /** If this setting has a value, the server runs elsewhere, and none is started. */
  readonly urlVariable: string
  readonly start: (context: StartContext) => Promise<Started>
  /** Checks that an external server answers and reads its version. */
  readonly inspect: (url: string, env: NodeJS.ProcessEnv) => Promise<Started>
}

/** Finds the program of a server, and reports a download as progress. */
export async function program(name: BinaryName, context: StartContext): Promise<string> {
  const path = await binary(name, {
    env: context.env,
    signal: context.signal,
    onFetch: (what) => context.progress('fetching', what),
  })
  context.progress('starting', BINARIES[name].title)
  return path
}

/** Starts a server, again with other ports if another process has taken one meanwhile, and reports that as progress. */
export const repeatedly = <T>(
  { progress }: StartContext,
  title: string,
  start: () => Promise<T>,
): Promise<T> => onFreePorts(start, (reason) => progress('starting', `${title} again. ${reason}`))

/** Describes a failure to connect in one line, without the URL, which may contain a password. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : (error.message.split('\n')[0] ?? error.name)
}

/** Describes a server that the stack has started. */
export function embedded(
  { supervisor }: StartContext,
  about: Pick<ServerInfo, 'name' | 'title' | 'version' | 'address'>,
): ServerInfo {
  const pid = supervisor.pid(about.name)
  return { ...about, origin: 'embedded', ...(pid !== undefined && { pid }) }
}

/** host:port of a URL, without credentials. */
export function hostOf(url: string): string {
  try {
    return new URL(url).host
  } catch {
    return 'an address that is not a URL'
  }
}

export type ServerName = 'postgres' | 'temporal' | 'seaweedfs' | 'valkey'

/** A running server, as a row of the table that `npm start` prints. */
export interface ServerInfo {
  readonly name: ServerName
  readonly title: string
  readonly version: string
  /** host:port or URL, without credentials. */
  readonly address: string
  readonly origin: 'embedded' | 'external'
  /** At the start: a restart changes it (`Supervisor.pid`). */
  readonly pid?: number
}

/** Random for each installation. They give access to all its data. */
export interface Secrets {
  readonly installation: string
  readonly postgresPassword: string
  readonly s3AccessKeyId: string
  readonly s3SecretAccessKey: string
  /** Signs requests between the parts of the object store. */
  readonly s3SigningKey: string
  readonly valkeyPassword: string
}

/** The content of stack.json. */
export interface StackState {
  readonly ports: Readonly<Record<string, number>>
  /** Ends the servers if their owner dies. A new start waits until it is done. */
  readonly reaper?: ProcessIdentity
  readonly running?: {
    readonly startedAt: string
    readonly servers: readonly ServerInfo[]
    readonly env: Readonly<Record<string, string>>
  }
}

/** Reads the secrets of an installation, and creates the missing ones. */
export function loadSecrets(dir: string): Secrets {
  const path = join(dir, 'secrets.json')
  const known = readJson<Partial<Secrets>>(path) ?? {}
  const secrets: Secrets = {
    installation: token(8),
    postgresPassword: token(24),
    s3AccessKeyId: token(10).toUpperCase(),
    s3SecretAccessKey: token(24),
    s3SigningKey: token(32),
    valkeyPassword: token(24),
    ...known,
  }
  if (Object.keys(secrets).length !== Object.keys(known).length) writeJson(path, secrets)
  return secrets
}

export function readState(dir: string): StackState {
  return { ports: {}, ...readJson<StackState>(join(dir, 'stack.json')) }
}

export function writeState(dir: string, state: StackState): void {
  writeJson(join(dir, 'stack.json'), state)
}

/** A damaged file counts as absent. The cast is safe: only this file writes it. */
function readJson<T>(path: string): T | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch {
    return undefined
  }
}

function writeJson(path: string, value: unknown): void {
  const draft = `${path}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, path)
}

function token(bytes: number): string {
  return randomBytes(bytes).toString('hex')
}
