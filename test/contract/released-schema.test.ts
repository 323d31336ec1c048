/** Schema files of a release never change: databases have them. What comes later is a migration behind them. */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import released from '../../src/infra/postgres/released-schema.json' with { type: 'json' }
import { schemaOfBuild } from '../../src/infra/postgres/schema-files.ts'

const FOLDER = 'infra/postgres/migrations/'

test('schema files of a release: unchanged, in the same order, before all others', async () => {
  const ofBuild = await schemaOfBuild()
  const known = Object.keys(released)
  expect(Object.entries(ofBuild).slice(0, known.length)).toEqual(Object.entries(released))
})

test('later files: numbered migrations that say which builds serve afterwards', async () => {
  const later = Object.keys(await schemaOfBuild()).slice(Object.keys(released).length)
  const numbers = later.map((name) => Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name.replace(FOLDER, ''))?.[1]))
  const first = Object.keys(released).filter((name) => name.startsWith(FOLDER)).length + 1
  expect(numbers).toEqual(later.map((_, at) => first + at))
  for (const name of later)
    expect(await readFile(`src/${name}`, 'utf8')).toMatch(/^-- Serves builds from \d+\.\d+\.\d+ on\.$/m)
})
