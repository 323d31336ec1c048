/** Prints the twenty slowest test files at the end of a run. */

import type { Reporter, TestModule } from 'vitest/node'

const SHOWN = 20

export class Slowest implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length <= SHOWN) return
    const files = modules
      .map((module) => ({ name: module.relativeModuleId, ms: module.diagnostic().duration }))
      .sort((a, b) => b.ms - a.ms)
    console.log(`\nThe ${SHOWN} slowest of ${files.length} files`)
    for (const { name, ms } of files.slice(0, SHOWN))
      console.log(`${(ms / 1_000).toFixed(1).padStart(7)} s  ${name}`)
  }
}
