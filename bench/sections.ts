/** Runs the sections of a benchmark on a platform of their own. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Started, startPlatform } from '../test/support/stack/start.ts'

type Sections = Readonly<Record<string, (started: Started) => Promise<void>>>

/** Prints all sections, or the named ones. */
export async function runSections(sections: Sections, names: readonly string[]): Promise<void> {
  const chosen = Object.entries(sections).filter(([name]) => names.length === 0 || names.includes(name))
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const started = await startPlatform(dir, { lasting: true, checkReplies: false })
  try {
    for (const [name, section] of chosen) {
      process.stdout.write(`\n## ${name}\n`)
      await section(started)
    }
  } finally {
    await started.stop()
    await rm(dir, { recursive: true, force: true })
  }
}
