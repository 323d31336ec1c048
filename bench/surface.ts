/** Measures one figure per service against its bound in the same run: a bare client, handler or workflow. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Running, startPlatform } from '../test/support/stack/start.ts'
import { collections } from './surface-collections.ts'
import { events } from './surface-events.ts'
import { flows } from './surface-flows.ts'
import { mcp } from './surface-mcp.ts'
import { quotas } from './surface-quotas.ts'
import { schemas } from './surface-schemas.ts'

type Part = (running: Running) => Promise<void>

const PARTS: Readonly<Record<string, Part>> = {
  collections,
  schemas,
  quotas,
  events,
  flows,
  mcp,
}

/** Prints all results, or the named parts; all take about three minutes. */
export async function surface(names: readonly string[]): Promise<void> {
  const parts = Object.entries(PARTS).filter(([name]) => names.length === 0 || names.includes(name))
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true })
  try {
    for (const [name, part] of parts) {
      process.stdout.write(`\n## ${name}\n`)
      await part(started.running)
    }
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}
