/** `npm run bench -- <name>`: every figure that the documentation claims, one command each. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Running, startPlatform } from '../test/support/start.ts'
import { smoke } from './smoke.ts'
import { objects } from './surface-objects.ts'

const BENCHES: Readonly<Record<string, () => Promise<void>>> = {
  smoke,
  'surface-objects': () => onPlatform(objects),
}

const name = process.argv[2] ?? ''
const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined
if (bench === undefined) {
  process.stderr.write(`npm run bench -- ${Object.keys(BENCHES).join(' | ')}\n`)
  process.exit(1)
}
await bench()

/** A benchmark that needs a platform and no more. */
async function onPlatform(work: (running: Running) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  try {
    const started = await startPlatform(dir, { lasting: true })
    try {
      await work(started.running)
    } finally {
      await started.stop()
    }
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
