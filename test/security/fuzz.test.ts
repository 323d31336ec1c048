/** A short run of the fuzz of all operations; `npm run test:fuzz` is the long one. */

import { expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import { fuzzOperations } from '../soak/fuzz/run.ts'
import { repeated } from '../support/stack/soak.ts'

const CASES = Number(process.env['TENON_FUZZ_CASES'] ?? repeated(2, 10) * OPERATIONS.length)
const SEED = Number(process.env['TENON_FUZZ_SEED'] ?? 22)
/** Fewer say nothing about shares. */
const SHARES_FROM = 300
/** It ends what hangs. */
const TIMEOUT_MS = 300_000 + CASES * 500

test(
  'fuzz of all operations by the callers that may run them: no reply of 500 or above, a quarter is accepted',
  async () => {
    const report = await fuzzOperations(CASES, SEED, (line) => console.log(line))
    console.log(`seed ${SEED}: ${report.cases} requests, ${report.accepted} accepted`)
    console.table(report.callers)
    console.log(`operations without an accepted request: ${report.untouched.join(' ') || 'none'}`)
    expect(report.failures.join('\n\n')).toBe('')
    if (CASES >= SHARES_FROM) expect(report.accepted).toBeGreaterThan(report.cases / 4)
  },
  TIMEOUT_MS,
)
