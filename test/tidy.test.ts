/** Checks rules of style that no linter covers: sizes, headers, names and the layout of folders. */

import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { HINTS } from '../src/core/tool-annotations.ts'

const FOLDERS = ['src', 'flows-dsl', 'stack', 'bench', 'test']

interface Source {
  readonly name: string
  readonly text: string
  readonly lines: readonly string[]
}

async function sources(): Promise<Source[]> {
  const names = await Promise.all(
    FOLDERS.map(async (folder) => {
      const entries = await readdir(folder, { recursive: true }).catch(() => [])
      return entries.filter((name) => /\.(ts|mjs)$/.test(name)).map((name) => `${folder}/${name}`)
    }),
  )
  return Promise.all(
    names.flat().map(async (name) => {
      const text = await readFile(name, 'utf8')
      return { name, text, lines: text.split('\n') }
    }),
  )
}

/** Files that a program or a bundle starts with, by path. */
const { workspaces } = JSON.parse(await readFile('knip.json', 'utf8')) as {
  workspaces: Readonly<Record<string, { entry?: readonly string[] }>>
}
const ENTRIES = workspaces['.']?.entry ?? []

/** Files that list members: each member is a subject of its own. */
const LISTS = /(^|\/)(index|main|program|fn|flow|app|background-tasks|run-kinds)\.ts$/

/** Short files with one importer beside them, by the end of their path: why each is a subject of its own. */
const OWN_SUBJECTS: Readonly<Record<string, string>> = {
  'project/kinds/secrets.ts': 'a kind of resources, beside the others',
  'audit/throttle.ts':
    'what is throttled in the audit log is asked for by name (docs/contributing/reading.md)',
  'cli/flows/junit.ts': 'a format of others',
  'backup/postgres/tar-member.ts': 'a format of others, with a test of its own',
  'compile/timezones.ts': 'alone reads the time zones of the process',
  'events/topic-rules.ts': 'rules are asked for by name (docs/internals/requests.md)',
  'guest/surface.ts': 'a part of the program in the process of a function',
  'images/stdio-runtime.ts': 'the interface of container engines',
  'mcp/server-json.ts': 'a format of others',
  'mongo/aggregate.ts': 'aggregates of one store, beside postgres/aggregate.ts',
  'mongo/expired.ts': 'expired documents of one store, beside postgres/expired.ts',
  'objects/object-rules.ts': 'rules are asked for by name (docs/internals/requests.md)',
  'references/across-stores.ts': 'references between the stores (docs/schemas.md)',
  'rules/lookups.ts': 'the statements of lookups',
  'access/mcp-privileges.ts': 'rows of a table that would be too long in one file',
  'postgres/whole-table.ts': 'the statements of whole tables',
  'authentication/roles-of-token.ts': 'what a token may do is asked for by name',
  'sandbox/fair-slots.ts': 'the yielding of slots, with a test of its own',
  'sandbox/reaper.ts': 'a program of its own in a shell',
  'start-checks/index.ts': 'the list of checks',
  'temporal/idle-queues.ts': 'the check of an operator',
  'triggers/schedules.ts': 'how a schedule is in Temporal',
  'factors/totp.ts': 'RFC 6238',
  'issuer/own-data.ts': 'the holder of two privileges (access/privileges.ts)',
}

/** The part of the sources that a file belongs to, whose files may import each other: a folder of `src`, or a feature. */
const partOf = (name: string) => /^src\/features\/[^/]+\/|^[^/]+\/[^/]+\//.exec(name)?.[0] ?? name

const all = await sources()
const product = all.filter(({ name }) => !name.startsWith('test/') && !name.startsWith('bench/'))

const TIDY = 'test/tidy.test.ts'
/** They compare dates that the product gives, with minutes to spare. */
const CALENDAR: readonly string[] = [
  'test/integration/http/idempotency-bounds.test.ts',
  'test/integration/identity/agents-page.test.ts',
]

test('files: have at most 500 lines', () => {
  expect(all.filter(({ lines }) => lines.length > 501).map(({ name }) => name)).toEqual([])
})

test('file: begins with a header', () => {
  const silent = all.filter(
    ({ lines }) =>
      !/^(\/\*\*|\/\/)(\n \*)? ?\S/.test(lines.slice(lines[0]?.startsWith('#!') ? 1 : 0).join('\n')),
  )
  expect(silent.map(({ name }) => name)).toEqual([])
})

test('deterministic code: uses no time, random numbers or locale of the process', () => {
  const banned = /\bDate\.now\b|Math\.random|\bIntl\b|localeCompare|toLocale|process\.|from 'node:/
  const pure = product.filter(({ name }) => /^(flows-dsl|src\/workflows)\//.test(name))
  expect(pure.length).toBeGreaterThan(10)
  // Only the compiler reads time zones.
  expect(pure.filter(({ text }) => banned.test(code(text))).map(({ name }) => name)).toEqual([
    'flows-dsl/compile/timezones.ts',
  ])
  expect(pure.filter(({ text }) => /\/timezones\.ts'/.test(text)).map(({ name }) => name)).toEqual([
    'flows-dsl/compile/schedule.ts',
  ])
})

test('product code: has no unfinished parts and no unchecked types', () => {
  const banned = /\b(TODO|FIXME|XXX|HACK)\b|\bas any\b|: any\b|@ts-ignore|eslint-disable/
  expect(product.filter(({ text }) => banned.test(code(text))).map(({ name }) => name)).toEqual([])
})

test('workflows: intervals of retries stand in one table', () => {
  const those = product.filter(
    ({ name, text }) => name.startsWith('src/workflows/') && /\binitialInterval\b/.test(text),
  )
  expect(those.map(({ name }) => name)).toEqual(['src/workflows/retries.ts'])
})

test('texts: a sentence is put behind another text by `sentences`, which ends the first one', () => {
  const glued = /\$\{[\w.]*\b(message|detail)\} ([A-Z]|\$\{(hint|advice))/
  const those = product.filter(({ name, text }) => name.startsWith('src/') && glued.test(code(text)))
  expect(those.map(({ name }) => name)).toEqual([])
})

test('annotations of tools: one file of the product names the hints', () => {
  // Of the rest of the product, `tenon mcp inspect` alone reads them: from a server that may be another one.
  const names = product.filter(({ text }) => HINTS.some((hint) => code(text).includes(hint)))
  expect(names.map(({ name }) => name).sort()).toEqual([
    'src/cli/mcp/inspect.ts',
    'src/core/tool-annotations.ts',
  ])
})

test('tests: none is skipped or run alone', () => {
  const skipped = all.filter(
    ({ name, text }) => name !== TIDY && /\b(test|it|describe)\.(skip|todo|only)\(/.test(text),
  )
  expect(skipped.map(({ name }) => name)).toEqual([])
})

test('tests: none bounds the time of the clock, which grows with the load of the machine', () => {
  const bounded = /\bexpect\([^\n]*\b(performance|Date)\.now\(\) - \w+[^\n]*(toBeLessThan|[^=]<)/
  const those = all.filter(
    ({ name, text }) => /^test\/.*\.test\.ts$/.test(name) && bounded.test(code(text)) && name !== TIDY,
  )
  // Instead: test/support/stopwatch.ts, the CPU time (test/support/thread-time.ts), or the awaited condition.
  expect(those.map(({ name }) => name).toSorted()).toEqual(CALENDAR)
})

test('tests: none has a limit of its own: those of vitest.config.ts end what hangs', () => {
  const limited =
    /^\}, [\d_]{4,}\)$|\b(test|it|describe)(\.\w+)?\([^\n]*\btimeout: [\d_]+|\.poll\([^\n]*\btimeout: [\d_]+/m
  const those = all.filter(
    ({ name, text }) => /^test\/.*\.test\.ts$/.test(name) && limited.test(code(text)) && name !== TIDY,
  )
  expect(those.map(({ name }) => name)).toEqual([])
})

test('tests: a title begins with its subject; a number of the MCP checklist stands at its end', () => {
  const coded = /['"`]T\d+(, T\d+)*: /
  const those = all.filter(({ name, text }) => name.startsWith('test/') && name !== TIDY && coded.test(text))
  expect(those.map(({ name }) => name)).toEqual([])
})

test('texts: cite no document from outside the repository', async () => {
  const cited = /interface\.md|\b(interface|decisions|data-plane|mcp) §|\bissues? \d|\bfindings? \d/i
  const guides = (await readdir('docs', { recursive: true })).filter((name) => name.endsWith('.md'))
  const texts = await Promise.all(
    guides.map(async (name) => ({ name, text: await readFile(`docs/${name}`, 'utf8') })),
  )
  const those = [...all, ...texts].filter(({ name, text }) => name !== TIDY && cited.test(text))
  expect(those.map(({ name }) => name)).toEqual([])
})

test('test files share a process: none replaces its modules or settings', () => {
  const banned = /\bvi\.(mock|doMock|stubGlobal|stubEnv)\(|\bprocess\.(env(\.\w+|\[[^\]]*\]) = |chdir\()/
  const those = all.filter(({ name, text }) => name.startsWith('test/') && banned.test(code(text)))
  // Three restore the settings afterwards; the engine and the setup run in processes of their own.
  expect(those.map(({ name }) => name).toSorted()).toEqual([
    'test/integration/cli/up-fails.test.ts',
    'test/integration/stack/supervise.test.ts',
    'test/support/clients/cli.ts',
    'test/support/servers/fake-engine.ts',
    'test/support/stack/global-setup.ts',
  ])
})

/**
 * Names from before the glossary, which have a plain term now (docs/glossary.md). Only distinctive ones, so that
 * none of them forbids a word of the language.
 */
const BANNED_NAMES = `
  admitGuest admitSender admitStranger admitTemporalUi answersOf aRoom asked_again askedUnderKey asksOf
  asRunKeeper aStoringRoom aStoringWorkspace aWorkspace Beginnings behindSeen cancelRun ClientAnswers
  decidedIn doorkeeper Doorkeeper doorOf drawRun earlyAnswers enterRuns enterWorkspace examinedAtOnce
  expectApart findInTurn Floods flowRun FlowRunInput flowsRunBy Foreseen forgetStanding
  goingAhead Guests handOn hasTwins Holders idempotencyShelfRowsMax inCourse invokeLending isAskedFor
  jointly judgesAlone lastOffered leaveEntry lendEnv lendHeaders LentCallSecrets LentHeaders letExpired
  Lookout Mandate mandateOf memoKey mostAhead mustAsk narrowing NearStarts NEVER_BEGAN officialResource
  openLine Overdue PagePass passOn patiently PayloadDesk PlaceKeeper planAlone readOffer recordedRun
  recordRun refuseOtherSites restful RunTrigger RunUpdate seenWorkspaces shownAs standsAlone
  stopHearing switchOn takePlace tenantMeant traceOfRefused twoTenants unmovable wentWell whatIsMissing
  Whereabouts whyNoMongo wishes
`
  .trim()
  .split(/\s+/)

const BANNED_FILES = `
  any-scope arrivals bare beginnings contenders desk door doorkeeper ears floods guests hand happenings
  insist joint lookout mandate mandates mender mending moments near-starts news overdue patience pens places
  surroundings turn turns undoing under-way wishes
`
  .trim()
  .split(/\s+/)

test('names: none is from before the glossary', () => {
  const banned = new RegExp(`(?<![\\w$])(?:${BANNED_NAMES.join('|')})(?![\\w$])`, 'g')
  const found = all
    .filter(({ name }) => name !== 'test/tidy.test.ts')
    .flatMap(({ name, text }) => [...code(text).matchAll(banned)].map(([word]) => `${name}: ${word}`))
  expect([...new Set(found)]).toEqual([])
})

test('function that returns a promise or a stream: is named by a verb, not `nounOf`', () => {
  const declared = [
    /\basync (?:function\*? |\*)?#?([a-z]\w*Of)\b *[(<]/g,
    /\bconst ([a-z]\w*Of) = async\b/g,
    /\bfunction\*? ([a-z]\w*Of)\b[^{=]*\): (?:Promise|AsyncGenerator)</g,
  ]
  const found = product.flatMap(({ name, text }) =>
    declared.flatMap((pattern) => [...text.matchAll(pattern)].map(([, noun]) => `${name}: ${noun}`)),
  )
  expect(found).toEqual([])
})

test('file names: none is from before the glossary', () => {
  const banned = new Set(BANNED_FILES)
  const found = all.filter(({ name }) => banned.has(basename(name).replace(/(\.test)?\.(ts|mjs)$/, '')))
  expect(found.map(({ name }) => name)).toEqual([])
})

test('file header: says what the file does, with no pronoun as its subject', () => {
  const pronoun = /^(#!.*\n)?(\/\*\*?|\/\/)(\s*\*)?\s*(What|Who|Whoever|Knows|Where|Whether)\b/
  const found = all.filter(({ text }) => pronoun.test(text))
  expect(found.map(({ name }) => name)).toEqual([])
})

test('folder of the product: has at most 25 source files', () => {
  const sizes = Map.groupBy(product, ({ name }) => dirname(name))
  const large = [...sizes].filter(([, files]) => files.length > 25)
  expect(large.map(([folder, files]) => `${folder}: ${files.length}`)).toEqual([])
})

test('file of the product: has 60 lines, several importers, or a subject of its own', () => {
  const importers = new Map<string, Set<string>>()
  for (const { name, text } of product)
    for (const [, path = ''] of text.matchAll(/(?:from|import|import\()\s*'(\.[^']+)'/g)) {
      const target = join(dirname(name), path)
      importers.set(target, (importers.get(target) ?? new Set()).add(name))
    }
  const scraps = product.filter(({ name, lines }) => {
    const [importer = '', ...others] = importers.get(name) ?? []
    const isMember = LISTS.test(importer) || partOf(importer) !== partOf(name) || ENTRIES.includes(name)
    return lines.length <= 60 && others.length === 0 && !isMember && !isOwnSubject(name)
  })
  expect(scraps.map(({ name }) => name)).toEqual([])
})

const isOwnSubject = (name: string) => Object.keys(OWN_SUBJECTS).some((end) => name.endsWith(`/${end}`))

/** The text without comments. */
function code(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/\/\/.*$/gm, '')
}

test('files with keys: those that a start or a command of the documentation writes: ignored by git, and in no image', async () => {
  const written = ['.env', '.env.local', '.env.local.new', '.tenon/master.key', 'seaweedfs.pem']
  const { stdout } = await promisify(execFile)('git', ['check-ignore', '--no-index', ...written])
  expect(stdout.trim().split('\n')).toEqual(written)
  const outOfImages = (await readFile('.dockerignore', 'utf8')).split('\n')
  expect(outOfImages).toEqual(expect.arrayContaining(['.tenon', '.env', '.env.local*', '*.pem']))
})
