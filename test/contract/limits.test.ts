/** Every limit says what it counts, in which unit, and what happens at it; docs/reference/limits.md shows the same. */

import { readdir } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { LIMITS } from '../../src/app/limits.ts'
import { readLimits } from '../../src/cli/stack/limits-page.ts'
import { PROBLEMS } from '../../src/core/problem-catalogue.ts'

/** Parts of names that state a unit, and how a description then begins. */
const UNITS: readonly (readonly [RegExp, string])[] = [
  [/bytes/i, 'Bytes'],
  [/chars/i, 'Characters'],
  [/Ms(?![a-z])/, 'Milliseconds'],
  [/(?<!per)seconds/i, 'Seconds'],
  [/hours/i, 'Hours'],
  [/days/i, 'Days'],
  [/Mb(?![a-z])/, 'MiB'],
  [/factor/i, 'Factor'],
  [/share/i, 'Share'],
]

/** Names and members of values that have units of their own, such as `minMs`. */
const wordsOf = (name: string, value: unknown) =>
  typeof value === 'object' ? `${name} ${Object.keys(value ?? {}).join(' ')}` : name

const files = readLimits()
const limits = files.flatMap(({ file, limits }) => limits.map((limit) => ({ file, ...limit })))

test('limits: each file of them: is in the list of all', async () => {
  const found = (await readdir('src', { recursive: true })).filter((name) => /(^|\/)limits\.ts$/.test(name))
  expect(found.filter((name) => name !== 'app/limits.ts').toSorted()).toEqual(Object.keys(LIMITS).toSorted())
})

test('limits: each value: has a description with what happens at it', () => {
  expect(limits.length).toBeGreaterThan(500)
  expect(files.flatMap(({ file, undescribed }) => undescribed.map((name) => `${file} ${name}`))).toEqual([])
  const silent = limits.filter(({ unit, effect }) => unit === '' || !/^[A-Z`].*\.$/.test(effect))
  expect(silent.map(({ file, name }) => `${file} ${name}`)).toEqual([])
})

test('limits: each description: begins with the unit that the name states', () => {
  const wrong = limits.filter(({ name, value, unit }) => {
    const stated = UNITS.filter(([part]) => part.test(wordsOf(name.split('.').at(-1) ?? '', value)))
    const isUnit = UNITS.some(([, word]) => word === unit)
    return stated.length === 0
      ? isUnit && !isUnitOfGroup(name, unit)
      : !stated.some(([, word]) => word === unit)
  })
  expect(wrong.map(({ file, name, unit }) => `${file} ${name}: ${unit}`)).toEqual([])
})

test('limits: each problem that a description names: exists', () => {
  const named = limits.flatMap(({ file, name, effect }) =>
    [...effect.matchAll(/`([a-z]+(?:_[a-z]+)+|[A-Z]\w+)`/g)].map(([, code = '']) => ({
      at: `${file} ${name}`,
      code,
    })),
  )
  expect(named.length).toBeGreaterThan(50)
  expect(named.filter(({ code }) => !Object.hasOwn(PROBLEMS, code) && !OTHER.includes(code))).toEqual([])
})

/** Names in descriptions that are no problems: a tool, and a setting. */
const OTHER: readonly string[] = ['tool_search', 'OIDC_ISSUERS']

const isUnitOfGroup = (name: string, unit: string) =>
  UNITS.some(([part, word]) => word === unit && part.test(name))
