/** Starts one stack and one platform for all test files, on free ports, and removes them after the tests. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { type Running, startPlatform } from './start.ts'

declare module 'vitest' {
  interface ProvidedContext {
    tenon: Running
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-test-'))
  const started = await startPlatform(dir)
  project.provide('tenon', started.running)
  return async () => {
    await started.stop()
    // Servers that end with the tests' processes may still write.
    await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 500 })
  }
}
