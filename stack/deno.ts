/** Deno, which runs functions: a program, not a server. Without it everything else starts all the same. */

import { type BinaryUnavailable, binary } from './binaries.mjs'
import { BINARIES } from './pins.mjs'

/** Fetching it is part of the start, but no start waits for it longer than this. */
const PATIENCE_MS = 60_000

export interface Deno {
  /** Settings for the worker; empty where there is no Deno. */
  readonly env: Readonly<Record<string, string>>
  /** Why there is none. */
  readonly missing?: string
}

/** Never rejects. */
export async function deno(env: NodeJS.ProcessEnv, signal: AbortSignal | undefined): Promise<Deno> {
  const { variable } = BINARIES.deno
  const late = AbortSignal.timeout(PATIENCE_MS)
  const either = signal === undefined ? late : AbortSignal.any([signal, late])
  try {
    const { path } = await binary('deno', { env, signal: either })
    return { env: { [variable]: path } }
  } catch (error) {
    return { env: {}, missing: (error as BinaryUnavailable).message }
  }
}
