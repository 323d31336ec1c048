/** One figure per service, each against what bounds it in the same run: a bare client, handler or workflow. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Running, startPlatform } from '../test/support/start.ts'
import { events } from './surface-events.ts'
import { flows } from './surface-flows.ts'
import { objects } from './surface-objects.ts'
import { quotas } from './surface-quotas.ts'

type Part = (running: Running) => Promise<void>

const PARTS: readonly Part[] = [quotas, events, flows, objects]

/** Prints everything; takes about two minutes. */
export async function surface(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true })
  try {
    for (const part of PARTS) await part(started.running)
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}
