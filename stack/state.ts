/** What an installation remembers in its data folder: its secrets and, in stack.json, ports and the running stack. */

import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessIdentity } from './lock.mjs'

export type ServerName = 'postgres' | 'temporal' | 'seaweedfs' | 'valkey'

/** A running server, as a row of the table that `npm start` prints. */
export interface ServerInfo {
  readonly name: ServerName
  readonly title: string
  readonly version: string
  /** host:port or URL, without credentials. */
  readonly address: string
  readonly origin: 'embedded' | 'external'
  /** As it was at the start; the supervisor knows the pid of now. */
  readonly pid?: number
}

/** Random per installation; whoever reads them owns the data. */
export interface Secrets {
  readonly installation: string
  readonly postgresPassword: string
  readonly s3AccessKeyId: string
  readonly s3SecretAccessKey: string
  /** The parts of the object store sign their requests to each other with it. */
  readonly s3SigningKey: string
  readonly valkeyPassword: string
}

/** The content of stack.json. */
export interface StackState {
  readonly ports: Readonly<Record<string, number>>
  /** Ends the servers of a dead owner; a new start waits for it. */
  readonly reaper?: ProcessIdentity
  readonly running?: {
    readonly startedAt: string
    readonly servers: readonly ServerInfo[]
    readonly env: Readonly<Record<string, string>>
  }
}

/** Reads the secrets; those that are not there yet are made. */
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

/** Written by us alone, hence the cast; a damaged file counts as absent. */
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
