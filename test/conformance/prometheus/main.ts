/**
 * `npm run test:prometheus` tests the alert rules with promtool, and runs their queries and those of the dashboard on a Prometheus that
 * scrapes a platform with some traffic. It needs Prometheus, or Debian's package of it.
 */

import { findPrometheus } from './prometheus.ts'
import { testQueries } from './queries.ts'
import { testRules } from './rules.ts'

const programs = await findPrometheus().catch((error: Error) => {
  process.stderr.write(`Nothing was tested. ${error.message}\n`)
  process.exit(1)
})
const failures = [...(await testRules(programs)), ...(await testQueries(programs))]
for (const failure of failures) process.stderr.write(`✗ ${failure}\n`)
process.stdout.write(failures.length === 0 ? 'All passed.\n' : `${failures.length} failed.\n`)
process.exit(failures.length === 0 ? 0 : 1)
