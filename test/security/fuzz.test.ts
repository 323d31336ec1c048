/** A short run of the fuzzer over the OpenAPI document; `npm run test:fuzz` is the long one. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'
import { fuzz, schemathesis } from '../soak/fuzz/schemathesis.ts'
import { fuzzTargets } from '../soak/fuzz/targets.ts'
import { createTestWorkspaceWithStorage, tokenOf } from '../support/fixtures/tenants.ts'
import { repeated } from '../support/stack/soak.ts'

const SEED = 22
/** Of each operation. */
const EXAMPLES = repeated(2, 10)
const TIMEOUT_MS = 400_000

/** Operations of a privilege domain: callers of the other one get 403 before their input is read. */
const operationsOf = (domain: string) =>
  OPERATIONS.filter((operation) => ['any', domain].includes(operation.domain)).map(({ name }) => name)

const program = await schemathesis()
if ('reason' in program) console.log(`skipped: ${program.reason}`)

test.runIf('path' in program)(
  'fuzzed requests of a key and a workspace admin: no response of 500 or above',
  async () => {
    const path = 'path' in program ? program.path : ''
    const { url } = inject('tenon')
    const workspace = await createTestWorkspaceWithStorage()
    const { tenantId, workspaceId } = workspace
    const claims = { tenant_id: tenantId, workspace_id: workspaceId, roles: ['workspace_admin'] }
    const admin = await tokenOf(claims)
    const targets = await fuzzTargets(workspace)
    const dir = await mkdtemp(join(tmpdir(), 'tenon-fuzz-'))
    try {
      for (const [name, headers, domain] of [
        ['service', workspace.service, 'data_access'],
        ['admin', admin, 'structural_admin'],
      ] as const) {
        const caller = { name, headers }
        const phases = ['fuzzing'] as const
        const operations = operationsOf(domain)
        const run = {
          url,
          caller,
          targets,
          operations,
          seed: SEED,
          phases,
          examples: EXAMPLES,
          timeoutMs: TIMEOUT_MS / 2,
          dir,
        }
        const result = await fuzz(path, run)
        console.log(`fuzzed as ${name}, seed ${SEED}: ${result.cases} cases`)
        expect(result.serverErrors).toBe('')
        expect(result.complaint).toBeUndefined()
        expect(result.cases).toBeGreaterThan((EXAMPLES - 1) * operations.length)
      }
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  },
  TIMEOUT_MS,
)
