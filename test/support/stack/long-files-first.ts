/** Orders the test files so that no long one runs alone at the end, and those that share a platform follow each other. */

import { join, relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Paths of long files, below `test`. Files that kill or overload processes share one platform per worker, which ends soon after
 * the last of them, so nothing comes between these; two have platforms of their own.
 */
const LONG: readonly RegExp[] = [
  /^isolation\/idempotency-faults/,
  /^resilience\/(flow-corpus|fairness)/,
  /^(resilience\/(?!audit-log|invariants)|security\/noisy-worker)/,
  /^security\/fuzz/,
  /^conformance\/stores/,
  /^integration\/tenants\/suspension/,
  /^integration\/triggers\/schedules/,
  /^integration\/import-export\/hostile-bodies/,
  /^integration\/executions\/temporal-ui/,
  /^integration\/flows\/concurrency/,
  /^integration\/triggers\/event-triggers/,
  /^integration\/executions\/expectations/,
  /^integration\/functions\/sandbox/,
  /^integration\/cli\/up/,
  /^security\/(approvals|event-loop|forged-work)/,
]

const TESTS = join(import.meta.dirname, '../..')

/** Of the others, the longest first by the last run, or by their size on a fresh clone. */
export class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rank = ({ moduleId }: TestSpecification) => {
      const found = LONG.findIndex((path) => path.test(relative(TESTS, moduleId)))
      return found < 0 ? LONG.length : found
    }
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}
