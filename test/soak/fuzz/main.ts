/**
 * Fuzzes a platform of its own from its OpenAPI document, without rate limits: `npm run test:fuzz -- [--cases
 * N] [--seed N]`. Continues with further seeds until the number of cases is reached (20,000 by default); any
 * reply of 500 or above is a failure.
 */

import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createTestWorkspaceWithStorage, operator } from '../../support/fixtures/tenants.ts'
import { ownPlatform } from '../../support/stack/own-platform.ts'
import { type FuzzCaller, fuzz, schemathesis } from './schemathesis.ts'
import { fuzzTargets } from './targets.ts'

const EXAMPLES = 25
const RUN_MS = 1_800_000
const ROUNDS_MAX = 20

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      cases: { type: 'string', default: '20000' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
    },
  })
  const program = await schemathesis()
  if ('reason' in program) {
    console.error(program.reason)
    return 1
  }
  const dir = await mkdtemp(join(tmpdir(), 'tenon-fuzz-'))
  const platform = await ownPlatform({ lasting: false }, (at) => createTestWorkspaceWithStorage(at))
  try {
    const { started, workspace } = platform
    const at = started.running
    const targets = await fuzzTargets(workspace, at)
    let cases = 0
    let failures = 0
    for (let round = 0; cases < Number(values.cases) && round < ROUNDS_MAX; round++) {
      for (const caller of await callers()) {
        const seed = Number(values.seed) + round
        const result = await fuzz(program.path, {
          ...{ url: at.url, caller, targets, seed, examples: EXAMPLES, timeoutMs: RUN_MS, dir },
          phases: ['examples', 'coverage', 'fuzzing'],
        })
        cases += result.cases
        failures += result.serverErrors === '' && result.complaint === undefined ? 0 : 1
        console.log(`${caller.name}, seed ${seed}: ${result.cases} cases`)
        console.log(result.complaint ?? result.serverErrors)
      }
    }
    console.log(`${cases} cases, reports in ${dir}`)
    return failures === 0 && cases >= Number(values.cases) ? 0 : 1

    async function callers(): Promise<FuzzCaller[]> {
      return [
        { name: 'service', headers: workspace.service },
        { name: 'operator', headers: await operator(at) },
        { name: 'anon', headers: workspace.anon },
      ]
    }
  } finally {
    await platform.end()
  }
}

process.exitCode = await main()
