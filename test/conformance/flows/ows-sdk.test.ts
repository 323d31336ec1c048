/**
 * Compares the compiler with the SDK of the Open Workflow Specification: every definition that only the SDK
 * rejects is listed.
 */

import { readdirSync, readFileSync } from 'node:fs'
import sdk from '@serverlessworkflow/sdk'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { compileFlow } from '../../../src/features/flows/definitions.ts'

const FOLDERS = ['../../../flows-dsl/examples/', 'corpus/']

/** Features that the SDK rejects, and the definitions that have them. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'the task `approve`, which is an extension of the language': [
    'approve',
    'approve-many',
    'approve-policies',
    'expense-approval',
    'moderation',
    'payout-approval',
    'refund',
  ],
  '`compensate`, which is an extension of the language': ['order-saga', 'saga', 'saga-loops', 'trip-saga'],
  '`for.concurrency` or `for.onError`, which are extensions of the language': [
    'contact-import',
    'csv-orders',
    'for-concurrent',
    'for-concurrent-fail',
    'for-continue',
    'hold',
    'listen-loop',
    'stock-sync',
  ],
  '`schedule.webhook`, which is an extension of the language': ['paid-order', 'pull-request-check'],
  '`catch.then`, which is an extension of the language': ['listen-timeout', 'try-flow'],
  'an event without `source`, which is the execution by default': [
    'emit',
    'logged-calls',
    'nightly-report',
    'sensor-batch',
    'signature-reminder',
  ],
  'durations by expression, `errors`, `onError` or a loop with options, which the SDK does not know': [
    'agent-loop',
    'async-report',
    'build-waves',
    'card-payment',
    'issue-lifecycle',
    'paged-totals',
    'trial-end',
  ],
  '`awaitCallback`, which is an extension of the language': ['video-render'],
  'a sub-flow without `version`, which is the newest by default': ['onboarding', 'run'],
  'a literal value in place of a runtime expression': ['for-nested', 'listen-forever', 'switch-color'],
}

const definitions = FOLDERS.flatMap((folder) => {
  const url = new URL(folder, import.meta.url)
  const files = readdirSync(url).filter((file) => /(?<!\.cases)\.yaml$/.test(file))
  return files.map((file) => ({
    name: file.replace('.yaml', ''),
    source: readFileSync(new URL(file, url), 'utf8'),
  }))
})

/** The SDK accepts the first version of the language only; later ones clarified it. */
function isTaken(source: string): boolean {
  const definition = parse(source)
  definition.document.dsl = '1.0.0'
  try {
    sdk.validate('Workflow', definition)
    return true
  } catch {
    return false
  }
}

test('definitions that compile: the SDK accepts each, or the reason is known', () => {
  for (const { name, source } of definitions)
    expect([name, compileFlow(source).ir]).not.toEqual([name, undefined])
  const refused = definitions.filter(({ source }) => !isTaken(source)).map(({ name }) => name)
  expect(refused.toSorted()).toEqual(Object.values(REFUSED).flat().toSorted())
  const most = Object.entries(REFUSED).map(([reason, names]) => `${names.join(', ')}: ${reason}`)
  process.stdout.write(
    `${definitions.length - refused.length} of ${definitions.length} are valid for the SDK; not\n  ${most.join('\n  ')}\n`,
  )
})

test('definition with a misspelt task: both reject it', () => {
  const [{ source } = { source: '' }] = definitions.filter(({ name }) => name === 'hello')
  const misspelt = source.replace(/^(\s+)(set|call|emit):/m, '$1sett:')
  expect(misspelt).not.toBe(source)
  expect([isTaken(misspelt), compileFlow(misspelt).ir]).toEqual([false, undefined])
})
