import { defineConfig } from 'vitest/config'
import { FailedFiles } from './test/support/stack/failed-files.ts'
import { LongFilesFirst } from './test/support/stack/long-files-first.ts'
import { Slowest } from './test/support/stack/slowest-files.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/stack/global-setup.ts'],
    pool: 'forks',
    sequence: { sequencer: LongFilesFirst },
    // Two cores: about half of the time of tests is waiting for servers.
    maxWorkers: 4,
    // The heap of a worker keeps all modules: with the default of 16 MB, collecting garbage was a third of its time.
    execArgv: ['--max-semi-space-size=64'],
    // What files import is read once by each worker: it was a tenth of the time of all. No file may leave anything behind in its process.
    isolate: false,
    // Nothing is measured by these: they end what hangs, also on a machine that is busy or slow. No test has a limit of its own.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['default', new Slowest(), new FailedFiles()],
  },
})
