/**
 * `npm run test:fuzz -- [--cases N] [--seed N]`: the fuzz of test/security/fuzz.test.ts with 20,000 requests by default, of a random
 * seed. Prints how many were accepted; exits with 1 after a reply of 500 or above, and if less than a quarter was accepted.
 */

import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { PROJECT_DIR } from '../../../stack/project.mjs'

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
  },
})
const args = ['node_modules/vitest/vitest.mjs', 'run', 'test/security/fuzz.test.ts']
const env = { ...process.env, TENON_FUZZ_CASES: values.cases, TENON_FUZZ_SEED: values.seed }
process.exitCode = spawnSync(process.execPath, args, { cwd: PROJECT_DIR, env, stdio: 'inherit' }).status ?? 1
