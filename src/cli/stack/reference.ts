/** `tenon reference`: generates docs/reference from the code, or checks it; with the table of flow conformance. */

import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import type { Argument, Command } from 'commander'
import { parse } from 'yaml'
import type { FlowCase } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import type { JsonObject } from '../../../flows-dsl/ir.ts'
import { flowSchema } from '../../api/docs.ts'
import { Problem } from '../../core/problem.ts'
import { PROBLEMS, type ProblemCode } from '../../core/problem-catalogue.ts'
import type { ProblemRow } from '../../core/problem-row.ts'
import { diagnosticDocs } from '../../features/flows/analyze.ts'
import { OPERATIONS } from '../../features/index.ts'
import { openApi } from '../../features/openapi/document.ts'
import { describeConfig } from '../../infra/config.ts'
import { metricsPage } from '../../infra/metrics/catalogue.ts'
import { createProgram } from '../program.ts'
import { clientFiles } from '../types/client-operations.ts'
import { chartPage, chartSchema } from './chart-reference.ts'
import { examplesFile } from './docstring-examples.ts'
import { limitsPage } from './limits-page.ts'
import { policyText, rolesPage } from './policy-text.ts'

const FOLDER = new URL('../../../docs/reference/', import.meta.url)

/** The generated files: name → content. */
export function referenceFiles(): Readonly<Record<string, string>> {
  const document = openApi(OPERATIONS)
  const client = clientFiles(document)
  return {
    'openapi.json': `${JSON.stringify(document, null, 2)}\n`,
    '../../client/src/generated/operations.ts': client.table,
    '../../client/src/generated/problem-codes.ts': client.codes,
    '../../client/src/generated/types.ts': client.types,
    'flow-schema.json': flowSchema(),
    'policy.txt': policyText(OPERATIONS),
    'roles.md': rolesPage(OPERATIONS),
    'problems.md': problems(),
    'flow-diagnostics.md': diagnosticDocs(),
    'flow-conformance.md': conformancePage(),
    'config.md': config(),
    'limits.md': limitsPage(),
    'metrics.md': metricsPage(),
    'examples.ts': examplesFile(),
    'cli.md': commandLine(),
    'chart.md': chartPage(),
    '../../deploy/helm/tenon/values.schema.json': chartSchema(),
  }
}

/** @returns the exit code: with `check`, 1 if a file differs */
export async function reference(options: { check?: boolean }): Promise<number> {
  await mkdir(FOLDER, { recursive: true })
  const stale: string[] = []
  for (const [name, text] of Object.entries(referenceFiles())) {
    const file = new URL(name, FOLDER)
    if ((await readFile(file, 'utf8').catch(() => '')) === text) continue
    stale.push(name)
    if (!options.check) await writeFile(file, text)
  }
  if (options.check && stale.length > 0)
    process.stderr.write(`docs/reference is stale: ${stale.join(', ')}\n`)
  return options.check && stale.length > 0 ? 1 : 0
}

function problems(): string {
  const rows = Object.entries<ProblemRow>(PROBLEMS).map(
    ([code, { status, title }]) =>
      `| \`${code}\` | ${status} | ${title} | ${new Problem(code as ProblemCode).fullHint} |`,
  )
  return `# Problems\n\nEvery error is \`application/problem+json\` (RFC 9457); \`code\` never changes its meaning.\n\n| code | status | title | help |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

function config(): string {
  const rows = describeConfig().map(
    ({ name, default: value, description }) =>
      `| \`${name}\` | ${value && `\`${value}\``} | ${description} |`,
  )
  return `# Settings\n\nThe API and the worker read these environment variables once, when they start.\n\n| name | default | description |\n|---|---|---|\n${rows.join('\n')}\n`
}

const CLI_HEAD = `# Command line

\`npx tenon <command> --help\` prints the same. \`tenon\` reads \`TENON_URL\`, \`TENON_WORKSPACE_ID\` and credentials from the environment. It reads
variables that are not set there from \`.env.local\`, which \`npm start\` writes. \`<json>\` and \`[value]\` are text, \`@file\`, or \`-\` for the standard
input. Each command prints its workspace, role and platform on stderr, unless \`--quiet\` is set. The exit code is 0 if the command succeeded;
[the others](../command-line.md#exit-codes-and-output).
`

/** All commands with their options, one table for each noun. */
function commandLine(): string {
  const program = createProgram()
  return `${CLI_HEAD}\n${commandTable(program, program.name())}${groupsOf(program, program.name())}`
}

/** The tables of the groups of commands below a command, such as `tenon flow alias`. */
function groupsOf(parent: Command, path: string): string {
  const groups = visibleCommands(parent).filter(({ commands }) => commands.length > 0)
  return groups
    .map((group) => {
      const name = `${path} ${group.name()}`
      const head = `\n## ${name}\n\n${group.description()}\n\n`
      return `${head}${commandTable(group, name)}${groupsOf(group, name)}`
    })
    .join('')
}

function commandTable(parent: Command, path: string): string {
  const rows = visibleCommands(parent)
    // A group may be a command of its own, such as `tenon restore`.
    .filter(({ commands, options }) => commands.length === 0 || options.length > 0)
    .map((command) => {
      const usage = [path, command.name(), ...command.registeredArguments.map(argumentText)].join(' ')
      const help = command.createHelp()
      const options = command.options.map((one) => `<br>\`${one.flags}\` ${help.optionDescription(one)}`)
      return `| \`${usage}\` | ${`${command.description()}${options.join('')}`.replaceAll('|', '\\|')} |`
    })
  return `| command | |\n|---|---|\n${rows.join('\n')}\n`
}

const visibleCommands = (parent: Command) =>
  parent
    .createHelp()
    .visibleCommands(parent)
    .filter((command) => command.name() !== 'help')

function argumentText(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

const CONFORMANCE_FOLDER = new URL('../../../flows-dsl/conformance/', import.meta.url)

/** Has one of `expect`, `fault`, `test` and `missing`. Further members go into the simulation. */
export interface ConformanceRow extends Partial<Omit<FlowCase, 'name'>> {
  /** The part of the specification's reference. */
  readonly of: string
  readonly construct: string
  /** A definition without the members that every document has. */
  readonly flow?: JsonObject
  /** The only code of its diagnostics. */
  readonly fault?: string
  /** A file and the name of a test in it. */
  readonly test?: readonly [file: string, name: string]
  /** The construct is not supported: the reason. */
  readonly missing?: string
  /** The part that is not supported. */
  readonly partly?: string
  readonly note?: string
}

/** All rows, in the order of the files. */
export function conformanceRows(): readonly ConformanceRow[] {
  const files = ['flow.yaml', 'tasks.yaml', 'around.yaml']
  const others = readdirSync(CONFORMANCE_FOLDER).filter((file) => !files.includes(file))
  if (others.length > 0) throw new TypeError(`The conformance table does not know ${others.join(', ')}.`)
  return files.flatMap(
    (file) => parse(readFileSync(new URL(file, CONFORMANCE_FOLDER), 'utf8')) as ConformanceRow[],
  )
}

/** The table as a page. */
export function conformancePage(): string {
  const rows = conformanceRows()
  const parts = [...new Set(rows.map(({ of }) => of))]
  const count = (support: string) => rows.filter((row) => supportOf(row).startsWith(support)).length
  const summary = `${rows.length} constructs: ${count('yes')} yes, ${count('partly')} partly, ${count('refused')} refused, ${count('no')} no.`
  const tables = parts.map((part) => tableOf(part, rows))
  return `${CONFORMANCE_HEAD}\n${summary}\n\n${tables.join('\n')}`
}

const CONFORMANCE_HEAD = `# Conformance of the flow language

Constructs of the Open Workflow Specification 1.0.3, and ours. \`yes\`: a flow with it is compiled and run in the simulator
by test/conformance/flows/conformance.test.ts, or the named test proves it. \`refused\`: compiling it reports a
diagnostic with that code, in the same test. The rows are in flows-dsl/conformance. The specification's own scenarios and definitions are run
from a checkout of it: \`npm run test:ctk -- <folder>\` and \`npm run test:ows -- <folder>\`.
`

function tableOf(part: string, rows: readonly ConformanceRow[]): string {
  const lines = rows.filter(({ of }) => of === part).map(lineOf)
  return `## ${part}\n\n| construct | supported | proof |\n|---|---|---|\n${lines.join('\n')}\n`
}

function lineOf(row: ConformanceRow): string {
  const about = [proofOf(row), row.partly, row.note].filter((one) => one !== undefined)
  return `| ${row.construct} | ${supportOf(row)} | ${about.join('; ')} |`
}

function supportOf({ fault, missing, partly }: ConformanceRow): string {
  if (missing !== undefined) return 'no'
  if (partly !== undefined) return 'partly'
  return fault === undefined ? 'yes' : `refused: \`${fault}\``
}

function proofOf({ of, construct, test, fault, missing }: ConformanceRow): string {
  if (missing !== undefined) return missing
  if (test !== undefined) return `${test[0]} “${test[1]}”`
  return `“${of}: ${construct}${fault === undefined ? '' : ' is refused'}”`
}
