/** Checks the README's maturity table against the list of operations. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { OPERATIONS } from '../../src/features/index.ts'

const README = readFileSync('README.md', 'utf8')

interface Row {
  readonly capability: string
  readonly state: string
  /** Names of operations up to the `.*`. */
  readonly nouns: readonly string[]
}

const rows: Row[] = README.slice(README.indexOf('## Maturity'), README.indexOf('## Servers elsewhere'))
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| capability'))
  .map((line) => {
    const [capability = '', state = '', operations = ''] = line.split(' | ').map((cell) => cell.trim())
    return {
      capability,
      state,
      nouns: [...operations.matchAll(/`(\w+)\.\*`/g)].map(([, noun]) => String(noun)),
    }
  })

const nounOf = (name: string) => name.slice(0, name.indexOf('.'))

test('every operation: by its noun: is in exactly one row', () => {
  const named = rows.flatMap(({ nouns }) => nouns)
  expect(named.toSorted()).toEqual([...new Set(OPERATIONS.map(({ name }) => nounOf(name)))].toSorted())
})

test.each(rows.filter(({ nouns }) => nouns.length > 0))(
  '$capability: the state of the row: is that of its operations',
  ({ state, nouns }) => {
    const stabilities = new Set(
      OPERATIONS.filter(({ name }) => nouns.includes(nounOf(name))).map(({ stability }) => stability),
    )
    expect([...stabilities]).toEqual([state.toLowerCase()])
  },
)
