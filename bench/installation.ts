/** Measures what an installation pays for being operated: each section compares it with and without, in one run. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { metrics } from './installation/metrics.ts'
import { neighbour } from './installation/neighbour.ts'
import { tracing } from './installation/tracing.ts'
import { workspaces } from './installation/workspaces.ts'

type Section = (started: Started) => Promise<void>

const SECTIONS: Readonly<Record<string, Section>> = { metrics, neighbour, tracing, workspaces }

/** Prints all sections, or the named ones. */
export async function installation(names: readonly string[]): Promise<void> {
  const sections = Object.entries(SECTIONS).filter(([name]) => names.length === 0 || names.includes(name))
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    for (const [name, section] of sections) {
      process.stdout.write(`\n## ${name}\n`)
      await section(started)
    }
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}
