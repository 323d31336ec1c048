/** Starts one stack and one platform for all test files, on free ports, and removes them after the tests. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { type Running, startPlatform } from './start.ts'

declare module 'vitest' {
  interface ProvidedContext {
    tenon: Running
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await saveProcessorTime()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-test-'))
  const started = await startPlatform(dir)
  project.provide('tenon', started.running)
  return async () => {
    await started.stop()
    // Servers that end with the tests' processes may still write.
    await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 500 })
  }
}

/** Settings of all processes of the tests, which spend memory. */
async function saveProcessorTime(): Promise<void> {
  // Temporal and the object store collect garbage a third as often.
  process.env['GOGC'] ??= '300'
  const { api, worker } = await currentBuild()
  process.env['NODE_COMPILE_CACHE'] = join(dirname(api), 'compile-cache')
  // About 100 processes are started; without settings these two end when they are loaded, and write the cache.
  await Promise.all(
    [api, worker].map((program) => new Promise((done) => execFile(process.execPath, [program], done))),
  )
}
