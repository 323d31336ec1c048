/** Writes the results of `tenon flow test` as JUnit XML, which CI systems show. */

import { type CaseError, type CheckedCase, isPassed } from '../../../flows-dsl/flow-tests/flow-tests.ts'
import { sentences } from '../../core/text/sentences.ts'

export interface TestedFlow {
  readonly file: string
  /** Empty if the flow does not compile. */
  readonly cases: readonly CheckedCase[]
  readonly failed: number
}

/** One `testsuite` for each flow, one `testcase` for each of its cases. */
export function junitOf(tested: readonly TestedFlow[]): string {
  const suites = tested.map(suiteOf).join('')
  const total = tested.reduce((sum, { cases }) => sum + Math.max(1, cases.length), 0)
  const failed = tested.reduce((sum, one) => sum + one.failed, 0)
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites tests="${total}" failures="${failed}">\n${suites}</testsuites>\n`
}

function suiteOf({ file, cases, failed }: TestedFlow): string {
  const name = escapeXml(file)
  const tests = Math.max(1, cases.length)
  const body =
    cases.length === 0
      ? `    <testcase classname="${name}" name="compiles"><failure message="The flow does not compile."/></testcase>\n`
      : cases.map((one) => caseOf(name, one)).join('')
  return `  <testsuite name="${name}" tests="${tests}" failures="${failed}">\n${body}  </testsuite>\n`
}

function caseOf(classname: string, checked: CheckedCase): string {
  const { name, errors, differences } = checked
  const head = `    <testcase classname="${classname}" name="${escapeXml(name)}"`
  if (isPassed(checked)) return `${head}/>\n`
  const lines = [
    ...errors.map(caseErrorLine),
    ...differences.map(({ at, expected, found }) => `${at}\n- ${textOf(expected)}\n+ ${textOf(found)}`),
  ]
  const places = [...errors.map(({ at, message }) => at || message), ...differences.map(({ at }) => at)]
  const message = escapeXml(places.join(', '))
  return `${head}><failure message="${message}">${escapeXml(lines.join('\n'))}</failure></testcase>\n`
}

/** An error of a case as one line: its place, unless it is the whole case, what is wrong, and what to write. */
export const caseErrorLine = ({ at, message, hint }: CaseError): string =>
  [at, sentences(message, hint)].filter(Boolean).join(': ')

const textOf = (value: unknown) => (value === undefined ? 'nothing' : JSON.stringify(value))

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** Escapes markup, and drops characters that XML 1.0 does not allow. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[&<>"]/g, (char) => ENTITIES[char] ?? char)
    .replaceAll(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '')
}
