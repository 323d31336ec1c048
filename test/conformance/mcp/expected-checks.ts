/**
 * Compares the checks of a run of the official suites with those that are expected not to pass, by check: a scenario of many
 * checks of which one is expected to fail goes on to watch the others.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'yaml'

/** Ids of checks, by scenario. */
export type Checks = Readonly<Record<string, readonly string[]>>

interface Check {
  readonly id: string
  readonly status: string
}

const PASSED: ReadonlySet<string> = new Set(['SUCCESS', 'INFO', 'SKIPPED'])

/** The checks that did not pass in a run. @param folder as the suite writes it: a folder for each scenario */
export async function readFailed(folder: string): Promise<Checks> {
  const failed = (await readdir(folder)).map(async (name) => {
    // `server-<scenario>-<time>`.
    const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '')
    const checks: Check[] = JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8'))
    const ids = checks.filter(({ status }) => !PASSED.has(status)).map(({ id }) => id)
    return [scenario, checks.length === 0 ? ['no check ran'] : [...new Set(ids)]] as const
  })
  const entries = await Promise.all(failed)
  if (entries.length === 0) throw new Error(`The suite ran no scenario: ${folder} is empty.`)
  return Object.fromEntries(entries)
}

export async function readExpected(file: string): Promise<Checks> {
  return (parse(await readFile(file, 'utf8')) as Checks | null) ?? {}
}

/** One line for each check that fails and is not listed, or is listed and passes. */
export function differences(failed: Checks, expected: Checks): string[] {
  const scenarios = new Set([...Object.keys(failed), ...Object.keys(expected)])
  return [...scenarios].flatMap((scenario) => {
    const [found, listed] = [failed[scenario] ?? [], expected[scenario] ?? []]
    const unlisted = found.filter((id) => !listed.includes(id))
    const passing = listed.filter((id) => !found.includes(id))
    return [
      ...unlisted.map((id) => `${scenario}: ${id} does not pass`),
      ...passing.map((id) => `${scenario}: ${id} is expected to fail, and passes or did not run`),
    ]
  })
}
