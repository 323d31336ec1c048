/**
 * Shows that the suite kills ten mutants: breaks one line of the product at a time, runs the test file that has to fail,
 * and restores the line. Arguments: names of mutants; all by default.
 */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROJECT_DIR } from '../../stack/project.mjs'

interface Mutant {
  readonly name: string
  readonly file: string
  /** A text that occurs once in the file, and its replacement. */
  readonly from: string
  readonly to: string
  /** The test file that fails. */
  readonly test: string
}

const MUTANTS: readonly Mutant[] = [
  {
    name: 'isolation: an admin reaches the workspaces of other tenants',
    file: 'src/access/access.ts',
    from: "(role !== 'operator' && found.tenantId !== tenantId)",
    to: 'false',
    test: 'test/isolation/tenant-sweep.test.ts',
  },
  {
    name: 'row-level security: a workspace sees all rows of its tenant',
    file: 'src/infra/postgres/roles.sql',
    from: "when 'workspace' then 'tenant_id = tenon.tenant() and workspace_id = tenon.workspace()'",
    to: "when 'workspace' then 'tenant_id = tenon.tenant()'",
    test: 'test/isolation/row-level-security.test.ts',
  },
  {
    name: 'idempotency: a second request takes over a claim under way',
    file: 'src/access/idempotency.ts',
    from: "and coalesce(known.held_until, '-infinity') <= now())",
    to: 'and true)',
    test: 'test/integration/http/idempotency.test.ts',
  },
  {
    name: 'slots: one execution more than the limit runs',
    file: 'src/features/runs/slots.sql',
    from: 'running < acquire_slot.max',
    to: 'running <= acquire_slot.max',
    test: 'test/integration/flows/concurrency.test.ts',
  },
  {
    name: 'rerun: the result of a compensated step is reused',
    file: 'src/features/flows/executions/rerun.ts',
    from: '    rejectCompensated(context, reused),',
    to: '    undefined,',
    test: 'test/integration/executions/rerun.test.ts',
  },
  {
    name: 'egress guard: private IPv6 addresses are reachable',
    file: 'src/infra/http-client/egress.ts',
    from: 'isIP(host) !== 0',
    to: 'isIP(host) === 4',
    test: 'test/security/egress-ranges.test.ts',
  },
  {
    name: 'seals: a worker accepts the payload of another workflow',
    file: 'src/infra/temporal/payload-codec.ts',
    from: '    if (textOf(payload, BOUND_TO) !== about.binding) return rejected()\n',
    to: '',
    test: 'test/security/forged-work.test.ts',
  },
  {
    name: 'audit chain: the hash of an entry does not cover the one before it',
    file: 'src/access/audit/audit.sql',
    from: "encode(prev_hash, 'hex') ||",
    to: "repeat('0', 64) ||",
    test: 'test/integration/audit/audit-log.test.ts',
  },
  {
    name: 'quota: one row more than the limit is accepted',
    file: 'src/features/quotas/quotas.sql',
    from: 'row.used > row.max then',
    to: 'row.used > row.max + 1 then',
    test: 'test/integration/quotas/quotas-api.test.ts',
  },
  {
    name: 'query compiler: an underscore in a pattern matches every character',
    file: 'src/features/collections/postgres/compile.ts',
    from: 'replaceAll(/[\\\\%_]/g',
    to: 'replaceAll(/[\\\\%]/g',
    test: 'test/integration/collections/filter-grammar.test.ts',
  },
]

/** The parts that are read of the JSON report of vitest. */
interface Report {
  readonly numFailedTests: number
  readonly numTotalTests: number
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

const chosen = process.argv.slice(2)
const mutants = MUTANTS.filter(
  ({ name }) => chosen.length === 0 || chosen.some((part) => name.includes(part)),
)
const folder = await mkdtemp(join(tmpdir(), 'tenon-mutants-'))
try {
  for (const mutant of mutants) if (!(await isKilled(mutant))) process.exitCode = 1
} finally {
  await rm(folder, { recursive: true, force: true })
}

/** Prints the result. @throws Error if the text to replace does not occur exactly once */
async function isKilled({ name, file, from, to, test }: Mutant): Promise<boolean> {
  const path = join(PROJECT_DIR, file)
  const source = await readFile(path, 'utf8')
  if (source.split(from).length !== 2) throw new Error(`${file} does not contain the text once: ${from}`)
  const restore = () => writeFile(path, source)
  const interrupted = () => void restore().finally(() => process.exit(130))
  for (const signal of SIGNALS) process.once(signal, interrupted)
  try {
    await writeFile(
      path,
      source.replace(from, () => to),
    )
    const report = await run(test)
    const failed = report?.numFailedTests ?? 0
    console.log(`${failed > 0 ? 'killed  ' : 'SURVIVED'} ${name} (${test}: ${outcome(report)})`)
    return failed > 0
  } finally {
    await restore()
    for (const signal of SIGNALS) process.off(signal, interrupted)
  }
}

function outcome(report: Report | undefined): string {
  return report === undefined ? 'no report' : `${report.numFailedTests} of ${report.numTotalTests} tests fail`
}

/** Runs a test file. @returns undefined if it did not start */
async function run(test: string): Promise<Report | undefined> {
  const output = join(folder, 'report.json')
  await rm(output, { force: true })
  const args = ['stack/bootstrap.mjs', 'test', test, '--reporter=json', `--outputFile=${output}`]
  await new Promise<void>((done) => execFile(process.execPath, args, { cwd: PROJECT_DIR }, () => done()))
  const text = await readFile(output, 'utf8').catch(() => undefined)
  return text === undefined ? undefined : (JSON.parse(text) as Report)
}
