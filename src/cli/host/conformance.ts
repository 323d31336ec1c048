/** Knows the conformance table: each construct of the specification, whether it is there, and the test that shows it. */

import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { FlowCase } from '../../../flows-dsl/cases/cases.ts'
import type { JsonObject } from '../../../flows-dsl/ir.ts'

const FOLDER = new URL('../../../flows-dsl/conformance/', import.meta.url)

/** One of `expect`, `fault`, `test` and `missing` is there. What else there is, goes into the simulation. */
export interface ConformanceRow extends Partial<Omit<FlowCase, 'name'>> {
  /** The part of the specification's reference. */
  readonly of: string
  readonly construct: string
  /** A definition without what every document needs. */
  readonly flow?: JsonObject
  /** The only code it is refused with. */
  readonly fault?: string
  /** A file and the name of a test in it. */
  readonly test?: readonly [file: string, name: string]
  /** What is not there. */
  readonly missing?: string
  /** What of it is not there. */
  readonly partly?: string
  readonly note?: string
}

/** All rows, in the order of the files and of what stands in them. */
export function conformanceRows(): readonly ConformanceRow[] {
  const files = ['flow.yaml', 'tasks.yaml', 'around.yaml']
  const others = readdirSync(FOLDER).filter((file) => !files.includes(file))
  if (others.length > 0) throw new TypeError(`The conformance table does not know ${others.join(', ')}.`)
  return files.flatMap((file) => parse(readFileSync(new URL(file, FOLDER), 'utf8')) as ConformanceRow[])
}

/** The table as a page. */
export function conformancePage(): string {
  const rows = conformanceRows()
  const parts = [...new Set(rows.map(({ of }) => of))]
  const count = (support: string) => rows.filter((row) => supportOf(row).startsWith(support)).length
  const summary = `${rows.length} constructs: ${count('yes')} yes, ${count('partly')} partly, ${count('refused')} refused, ${count('no')} no.`
  const tables = parts.map((part) => tableOf(part, rows))
  return `${HEAD}\n${summary}\n\n${tables.join('\n')}`
}

const HEAD = `# Conformance of the flow language

Constructs of the Open Workflow Specification 1.0.3, and ours. \`yes\`: a flow with it is compiled and run in the simulator
by test/flows/conformance.test.ts, or the test that is named proves it. \`refused\`: it is a fault at compile time, with
that code, by the same test. The rows are in flows-dsl/conformance. The specification's own scenarios and definitions are run
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
