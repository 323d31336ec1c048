/** docs/contributing/dependencies.md: names every direct dependency with its date, what is old or in beta with the reason, and all licences. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import project from '../../package.json' with { type: 'json' }
import { BINARIES } from '../../stack/pins.mjs'
import {
  EXCEPTIONS,
  isAllowed,
  licencesOf,
  lockedPackages,
  productionPackages,
} from '../support/checks/licences.ts'

const PAGE = readFileSync('docs/contributing/dependencies.md', 'utf8')

/** The cells of the rows of a table below a heading. */
function tableOf(heading: string): string[][] {
  const [, section = ''] = PAGE.split(`\n## ${heading}\n`)
  const [own = ''] = section.split('\n## ')
  const rows = own.split('\n').filter((line) => line.startsWith('|'))
  return rows.slice(2).map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

/** Direct dependencies and pinned programs, as they are installed. */
function direct(): string[] {
  const locked = lockedPackages()
  const names = Object.keys({ ...project.dependencies, ...project.devDependencies })
  const packages = names.map((name) => `\`${name}\` ${locked[`node_modules/${name}`]?.version}`)
  const programs = Object.values(BINARIES).map(
    ({ package: name, version }) => `\`${name}\` (PyPI) ${version}`,
  )
  return [...packages, ...programs].sort()
}

const [, AS_OF = ''] = /Dates were looked up on (\d{4}-\d{2}-\d{2})/.exec(PAGE) ?? []
const versions = tableOf('Versions').map(([name = '', version = '', date = '', reason = '']) => ({
  ...{ name, version, date, reason },
}))

test('page: has each direct dependency in the version that is installed, and no other', () => {
  expect(versions.map(({ name, version }) => `${name} ${version}`).sort()).toEqual(direct())
})

test('page: each version has the date of its publication, before that of the page', () => {
  expect(AS_OF).not.toBe('')
  const wrong = versions.filter(({ date }) => !/^\d{4}-\d{2}(-\d{2})?$/.test(date) || date > AS_OF)
  expect(wrong).toEqual([])
})

test('page: a version that is older than a year or in beta has a reason, and no other has one', () => {
  const yearBefore = `${Number(AS_OF.slice(0, 4)) - 1}${AS_OF.slice(4)}`
  const needsReason = ({ version, date }: { version: string; date: string }) =>
    date < yearBefore || /^0\.|-/.test(version)
  expect(versions.filter(needsReason).length).toBeGreaterThan(0)
  expect(versions.filter((row) => needsReason(row) !== row.reason.length > 10)).toEqual([])
})

test('licences: of production: are all allowed', () => {
  const wrong = productionPackages().filter(
    ({ name, licence }) => !licencesOf(licence).every((one) => isAllowed(one, name)),
  )
  expect(wrong).toEqual([])
  expect(isAllowed('LGPL-3.0-or-later', 'pg')).toBe(false)
  expect(licencesOf('(GPL-3.0 OR MIT) AND ISC')).toEqual(['MIT', 'ISC'])
})

test('page: has the licences of production with the number of their packages', () => {
  const counts = Map.groupBy(productionPackages(), ({ licence }) => licence)
  const rows = [...counts].map(([licence, packages]) => [licence, String(packages.length)])
  expect(
    tableOf('Licences')
      .map(([licence, count]) => [licence, count])
      .sort(),
  ).toEqual(rows.sort())
  for (const { because } of Object.values(EXCEPTIONS)) expect(PAGE).toContain(because)
})
