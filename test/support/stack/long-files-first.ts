/** Orders the test files so that no long one runs alone at the end, and those that share a platform follow each other. */

import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Parts of paths. Files that kill or overload processes share one platform per worker, which ends when they are done. */
const LONG = [
  'test/resilience/',
  'test/security/noisy-worker',
  'test/security/fuzz',
  'test/conformance/stores/',
  'test/integration/tenants/suspension',
  'test/integration/triggers/schedules',
  'test/integration/import-export/hostile-bodies',
  'test/integration/executions/temporal-ui',
  'test/integration/flows/concurrency',
  'test/integration/triggers/event-triggers',
  'test/integration/executions/expectations',
  'test/integration/functions/sandbox',
  'test/integration/cli/up',
  'test/security/approvals',
  'test/security/event-loop',
  'test/security/forged-work',
]

/** Of the others, the longest first by the last run, or by their size on a fresh clone. */
export class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rank = ({ moduleId }: TestSpecification) => {
      const found = LONG.findIndex((part) => moduleId.includes(part))
      return found < 0 ? LONG.length : found
    }
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}
