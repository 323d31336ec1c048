/** Measures the life of a tenant: its creation beside a bare workflow, a deletion of expired rows beside a reader of another tenant. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Started, startPlatform } from '../test/support/stack/start.ts'
import { creation } from './lifecycle/creation.ts'
import { retention } from './lifecycle/retention.ts'

const SECTIONS: Readonly<Record<string, (started: Started) => Promise<void>>> = { creation, retention }

/** Prints all sections, or the named ones. */
export async function lifecycle(names: readonly string[]): Promise<void> {
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
