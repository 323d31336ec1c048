/** Writes the names of the test files that failed to the file of `TENON_FAILED_FILES`, one per line, for .ci/run. */

import { writeFileSync } from 'node:fs'
import { env } from 'node:process'
import type { Reporter, TestModule } from 'vitest/node'

export class FailedFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const file = env['TENON_FAILED_FILES']
    // An error outside of all tests is of no file.
    if (file === undefined || unhandled.length > 0) return
    const failed = modules.filter((module) => !module.ok()).map((module) => module.relativeModuleId)
    writeFileSync(file, failed.map((name) => `${name}\n`).join(''))
  }
}
