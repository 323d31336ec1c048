/**
 * Scores the compiler against the Open Workflow Specification: `npm run test:ows -- <folder of the
 * specification>`. Every example and every definition of the conformance features compiles, or is rejected
 * for a listed reason; every definition that the project calls invalid is rejected.
 */

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import type { Diagnostic } from '../../../flows-dsl/diagnostics/diagnostics.ts'
import { CATALOGUE } from '../../../src/features/data-operations.ts'

/**
 * Rejections by design: protocols and processes that the platform does not provide, and code from elsewhere.
 */
const DESIGNED: readonly (readonly [code: string, message: RegExp])[] = [
  ['unsupported_call', /call: (?:asyncapi|grpc|a2a|mcp)/],
  ['unsupported_feature', /container|script|shell/],
  ['unsupported_catalog', /./],
]

interface Definition {
  readonly name: string
  readonly source: string
}

interface Verdict {
  readonly name: string
  readonly diagnostics: readonly Diagnostic[]
}

const folder = resolve(process.env['TENON_CALLER_CWD'] ?? '.', process.argv[2] ?? '')
const examples = reportRejections('examples', files('examples').map(read))
const features = reportRejections('ctk/features', files('ctk/features', '.feature').flatMap(definitionsOf))
const invalid = files('.ci/validation/test/fixtures/invalid').map(read).map(verdictOf)
const accepted = invalid.filter(({ diagnostics }) => diagnostics.length === 0)
print(`invalid fixtures: ${invalid.length - accepted.length} of ${invalid.length} refused`)
for (const { name } of accepted) print(`  accepted   ${name}`)
process.exitCode = examples + features + accepted.length + (invalid.length === 0 ? 1 : 0) > 0 ? 1 : 0

/** Prints each rejection. @returns the number of those that are not by design */
function reportRejections(what: string, definitions: readonly Definition[]): number {
  const verdicts = definitions.map(verdictOf)
  const refused = verdicts.filter(({ diagnostics }) => diagnostics.length > 0)
  const designed = refused.filter(({ diagnostics }) => diagnostics.every(isDesigned))
  const accepted = verdicts.length - refused.length
  const others = refused.length - designed.length
  print(
    `${what}: ${accepted} of ${verdicts.length} taken, ${designed.length} refused by design, ${others} for other reasons`,
  )
  for (const { name, diagnostics } of refused) {
    const label = diagnostics.every(isDesigned) ? 'by design' : 'refused  '
    for (const { code, message, line } of diagnostics) print(`  ${label}  ${name}:${line} ${code} ${message}`)
  }
  return others
}

function isDesigned({ code, message }: Diagnostic): boolean {
  return DESIGNED.some(([known, words]) => known === code && words.test(message))
}

function verdictOf({ name, source }: Definition): Verdict {
  return { name, diagnostics: compile(source, { catalogue: CATALOGUE }).diagnostics }
}

function files(path: string, ending = '.yaml'): readonly string[] {
  const names = readdirSync(join(folder, path)).filter((name) => name.endsWith(ending))
  return names.sort().map((name) => join(path, name))
}

function read(path: string): Definition {
  return { name: path, source: readFileSync(join(folder, path), 'utf8') }
}

/** The definitions of a feature without their margin; its other blocks are data. */
function definitionsOf(path: string): readonly Definition[] {
  const { source: text } = read(path)
  const blocks = [...text.matchAll(/^( *)"""yaml\n([\s\S]*?)\n *"""/gm)].map(([, margin = '', block = '']) =>
    block
      .split('\n')
      .map((line) => (line.startsWith(margin) ? line.slice(margin.length) : line.trimStart()))
      .join('\n'),
  )
  return blocks
    .filter((block) => /^document:/m.test(block))
    .map((source, index) => ({ name: `${path}#${index + 1}`, source }))
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
