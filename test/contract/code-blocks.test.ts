/** Which blocks of code in the documentation a test runs, and how many no test runs yet: a new block needs a test. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { expect, test } from 'vitest'
import { CONTENTS } from '../../src/site/contents.ts'

/** The blocks of these languages on these pages are run or compared by the file: all of them, or so many of a section or page as it reads. */
interface Rule {
  readonly pages: readonly string[]
  readonly languages: readonly string[]
  readonly section?: string
  readonly first?: number
  readonly by: string
}

const EXAMPLES = 'test/integration/examples'
const doc = (...names: readonly string[]) => names.map((name) => `docs/${name}.md`)
const runbooks = readdirSync('docs/runbooks').map((name) => `docs/runbooks/${name}`)

const RUN: readonly Rule[] = [
  { pages: doc('batch'), languages: ['sh'], by: `${EXAMPLES}/batch-page.test.ts` },
  { pages: doc('batch'), languages: ['js'], first: 1, by: `${EXAMPLES}/batch-page.test.ts` },
  { pages: doc('batch'), languages: ['yaml'], first: 1, by: `${EXAMPLES}/batch-page.test.ts` },
  { pages: doc('collections'), languages: ['sh'], by: `${EXAMPLES}/batch-page.test.ts` },
  { pages: doc('client'), languages: ['json'], first: 1, by: `${EXAMPLES}/client-page.test.ts` },
  { pages: doc('client'), languages: ['ts'], by: `${EXAMPLES}/client-page.test.ts` },
  { pages: doc('openapi'), languages: ['sh'], first: 1, by: `${EXAMPLES}/openapi-page.test.ts` },
  { pages: doc('openapi'), languages: ['json'], first: 1, by: `${EXAMPLES}/openapi-page.test.ts` },
  { pages: doc('from-supabase'), languages: ['bash'], by: `${EXAMPLES}/from-supabase.test.ts` },
  { pages: doc('functions'), languages: ['sh', 'js'], by: `${EXAMPLES}/functions-page.test.ts` },
  { pages: doc('functions'), languages: ['ts'], by: 'test/unit/functions/written-types.test.ts' },
  { pages: doc('identity'), languages: ['sh'], by: `${EXAMPLES}/sign-ins-page.test.ts` },
  { pages: doc('keys-and-kms'), languages: ['sh', 'console'], by: `${EXAMPLES}/keys-page.test.ts` },
  { pages: doc('keys-and-kms'), languages: ['bash'], by: 'test/conformance/kms/main.ts' },
  {
    pages: doc(
      'tenants',
      'moving-workspaces',
      'privacy',
      'host-names',
      'roles',
      'command-line',
      'flows-running',
    ),
    languages: ['bash'],
    by: `${EXAMPLES}/life-pages.test.ts`,
  },
  { pages: doc('project'), languages: ['yaml', 'ts', 'sh'], by: `${EXAMPLES}/project-page.test.ts` },
  { pages: doc('search'), languages: ['json'], first: 2, by: `${EXAMPLES}/search-page.test.ts` },
  { pages: doc('search'), languages: ['sh'], first: 1, by: `${EXAMPLES}/search-page.test.ts` },
  {
    pages: doc('schemas'),
    languages: ['sh'],
    section: 'References',
    first: 1,
    by: `${EXAMPLES}/references-page.test.ts`,
  },
  {
    pages: doc('queries'),
    languages: ['sh'],
    section: 'Filters through references',
    first: 1,
    by: `${EXAMPLES}/references-page.test.ts`,
  },
  {
    pages: doc('schemas'),
    languages: ['sh'],
    section: 'Constraints',
    first: 1,
    by: `${EXAMPLES}/bookings-page.test.ts`,
  },
  {
    pages: doc('schemas'),
    languages: ['sh'],
    section: 'Deleting what belongs together',
    first: 1,
    by: `${EXAMPLES}/cascades-page.test.ts`,
  },
  {
    pages: doc('events'),
    languages: ['js'],
    section: 'Live queries',
    first: 1,
    by: `${EXAMPLES}/live-query-page.test.ts`,
  },
  { pages: doc('mcp'), languages: ['json'], by: 'test/integration/mcp/documented-examples.test.ts' },
  {
    pages: doc('users'),
    languages: ['html'],
    first: 1,
    by: 'test/integration/users/sign-in-from-page.test.ts',
  },
  {
    pages: [...doc('deploying', 'operating', 'scaling'), ...runbooks],
    languages: ['sh', 'bash', 'sql', 'valkey'],
    by: `${EXAMPLES}/operators-pages.test.ts`,
  },
  { pages: doc('operating'), languages: ['yaml'], first: 1, by: `${EXAMPLES}/operators-pages.test.ts` },
  { pages: doc('deploying'), languages: ['haproxy'], first: 1, by: `${EXAMPLES}/operators-pages.test.ts` },
  { pages: doc('backup'), languages: ['sh'], section: 'Upgrade', by: `${EXAMPLES}/operators-pages.test.ts` },
  { pages: doc('kubernetes'), languages: ['yaml'], by: 'test/contract/chart.test.ts' },
  {
    pages: doc('flows'),
    languages: ['yaml'],
    section: 'Dates and times',
    first: 1,
    by: 'test/conformance/flows/readme.test.ts',
  },
  {
    pages: doc(
      'for-app-developers',
      'for-flow-authors',
      'for-agent-builders',
      'for-operators',
      'from-firebase',
    ),
    languages: ['bash'],
    by: `${EXAMPLES}/reader-pages.test.ts`,
  },
  {
    pages: doc('from-kestra', 'from-zigflow'),
    languages: ['yaml'],
    by: 'test/conformance/flows/readme.test.ts',
  },
  { pages: ['flows-dsl/README.md'], languages: ['yaml'], by: 'test/conformance/flows/readme.test.ts' },
]

/**
 * Blocks that no test runs, by page. The numbers may only become smaller: a block that is added gets a test and a rule above. What is shown
 * without a language, what a terminal prints, and settings in the form of INI files are no code. What generates docs/reference has tests of its own.
 */
const UNRUN: Readonly<Record<string, number>> = {
  'README.md': 2,
  'docs/access.md': 4,
  'docs/aggregates.md': 2,
  'docs/analytics.md': 6,
  'docs/approvals.md': 3,
  'docs/audit.md': 1,
  'docs/backup.md': 8,
  'docs/batch.md': 2,
  'docs/bulk-changes.md': 1,
  'docs/client.md': 2,
  'docs/command-line.md': 2,
  'docs/contributing/dependencies.md': 1,
  'docs/contributing/migrations.md': 2,
  'docs/events.md': 8,
  'docs/executions.md': 2,
  'docs/flows-running.md': 4,
  'docs/flows.md': 2,
  'docs/from-supabase.md': 1,
  'docs/getting-started.md': 3,
  'docs/host-names.md': 1,
  'docs/identity.md': 5,
  'docs/import-export.md': 3,
  'docs/keys.md': 4,
  'docs/kubernetes.md': 2,
  'docs/mcp.md': 3,
  'docs/moving-workspaces.md': 1,
  'docs/objects.md': 12,
  'docs/operating.md': 6,
  'docs/queries.md': 1,
  'docs/retention.md': 2,
  'docs/roles.md': 2,
  'docs/s3.md': 3,
  'docs/schemas.md': 11,
  'docs/search.md': 1,
  'docs/secrets.md': 3,
  'docs/tenants.md': 2,
  'docs/triggers.md': 2,
  'docs/tutorial.md': 14,
  'docs/users.md': 2,
  'docs/webhooks.md': 5,
  'examples/court-booking/README.md': 2,
  'examples/support-desk/README.md': 2,
  'examples/todo-web/README.md': 1,
  'examples/upload/README.md': 1,
}

const NO_CODE = ['', 'ini', 'console']

interface Block {
  readonly page: string
  readonly language: string
  readonly section: string
}

/** The sections that a block stands in: the last heading before it, and those above that. */
function blocksOf(page: string): Block[] {
  const headings: string[] = []
  const found: Block[] = []
  const parts = readFileSync(page, 'utf8').matchAll(/^(#+) (.*)$|^( *)```(\w*)\n[\s\S]*?^\3```/gm)
  for (const [, marks, heading = '', , language = ''] of parts) {
    if (marks === undefined) found.push({ page, language, section: headings.join(' / ') })
    else headings.splice(marks.length - 1, Number.POSITIVE_INFINITY, heading)
  }
  return found
}

const pages = [
  ...new Set([...CONTENTS.flatMap(({ pages: listed }) => listed), ...runbooks, 'README.md']),
].filter((page) => page !== 'CHANGELOG.md' && !page.startsWith('docs/reference/'))

const all = pages.flatMap(blocksOf)

/** The blocks that a rule names. */
function covered({ pages: named, languages, section, first = Number.POSITIVE_INFINITY }: Rule): Block[] {
  const those = all.filter(
    (one) =>
      named.includes(one.page) &&
      languages.includes(one.language) &&
      (section === undefined || one.section.split(' / ').includes(section)),
  )
  return those.slice(0, first)
}

test('blocks that no test runs: are as many as are listed, and no more', () => {
  const run = new Set(RUN.flatMap(covered))
  const unrun = all.filter((block) => !NO_CODE.includes(block.language) && !run.has(block))
  const counts = Map.groupBy(unrun, ({ page }) => page)
  expect(Object.fromEntries([...counts].map(([page, those]) => [page, those.length]))).toEqual(UNRUN)
})

test('rules: name blocks that there are, and files that read the page', () => {
  for (const rule of RUN) {
    const { pages: named, by, section, first = 1 } = rule
    expect([by, section, covered(rule).length >= first]).toEqual([by, section, true])
    expect([by, existsSync(by)]).toEqual([by, true])
    const text = readFileSync(by, 'utf8')
    const unread = named.filter(
      (page) => ![basename(page), basename(page, '.md'), dirname(page)].some((name) => text.includes(name)),
    )
    expect([by, unread]).toEqual([by, []])
  }
})
