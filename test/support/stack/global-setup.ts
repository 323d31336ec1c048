/** Starts one stack and one platform for all test files, on free ports, and removes them after the tests. */

import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { provisionTenant, sharedOperator } from '../fixtures/tenants.ts'
import { type Running, startPlatform } from './start.ts'

declare module 'vitest' {
  interface ProvidedContext {
    tenon: Running
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-test-'))
  // Temporal and the object store collect garbage a third as often as by default.
  process.env['GOGC'] ??= '300'
  process.env['TEST_COMPILE_CACHE'] = join(dir, 'compile-cache')
  const [started] = await Promise.all([startPlatform(dir), fillCompileCache(join(dir, 'compile-cache'))])
  // The worker may still be starting.
  await provisionTenant(await sharedOperator(started.running), started.running)
  project.provide('tenon', started.running)
  return async () => {
    await started.stop()
    // Servers that end with the tests' processes may still write.
    await rm(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 500 })
  }
}

/**
 * Lets about 100 processes of the platform reuse the compiled code of two, which end without settings as soon as they are
 * loaded: Node writes its cache when a process exits, and tests kill most of theirs.
 */
async function fillCompileCache(NODE_COMPILE_CACHE: string): Promise<void> {
  const { api, worker } = await currentBuild()
  const load = (program: string) =>
    new Promise<void>((ended) =>
      execFile(process.execPath, [program], { env: { NODE_COMPILE_CACHE } }, () => ended()),
    )
  await Promise.all([api, worker].map(load))
}
