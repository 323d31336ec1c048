/** Schema files of a release never change: databases have them. What comes later is a migration behind them. */

import { expect, test } from 'vitest'
import { checkedHead } from '../../src/infra/postgres/migration-file.ts'
import released from '../../src/infra/postgres/released-schema.json' with { type: 'json' }
import { readSqlFile, type SqlFile, schemaOfBuild } from '../../src/infra/postgres/schema-files.ts'

const FOLDER = 'infra/postgres/migrations/'

test('schema files of a release: unchanged, in the same order, before all others', async () => {
  const ofBuild = await schemaOfBuild()
  const known = Object.keys(released)
  expect(Object.entries(ofBuild).slice(0, known.length)).toEqual(Object.entries(released))
})

/** The faults of files that follow a number of released migrations, in their order. */
const faultsOf = (files: readonly SqlFile[], before: number): string[] =>
  files.flatMap((file, at) => {
    const number = /^(\d{4})-[a-z0-9-]+\.sql$/.exec(file.name.replace(FOLDER, ''))?.[1]
    return [
      ...(number === String(before + at + 1).padStart(4, '0') ? [] : [`${file.name}: not the next number`]),
      ...(/^-- Serves builds from \d+\.\d+\.\d+ on\.$/m.test(file.text)
        ? []
        : [`${file.name}: does not say which builds serve afterwards`]),
      ...refusalsOf(file),
    ]
  })

function refusalsOf(file: SqlFile): string[] {
  try {
    checkedHead(file)
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

test('later files: numbered migrations that say which builds serve afterwards', async () => {
  const later = Object.keys(await schemaOfBuild()).slice(Object.keys(released).length)
  const before = Object.keys(released).filter((name) => name.startsWith(FOLDER)).length
  expect(faultsOf(await Promise.all(later.map(readSqlFile)), before)).toEqual([])
})

test('later files, what is checked: each fault is found, and files without one pass', () => {
  const head = '-- Serves builds from 0.1.0 on.\n'
  const adds = 'alter table tenon.executions add column labels jsonb;\n'
  const file = (name: string, text: string): SqlFile => ({ name: `${FOLDER}${name}.sql`, text })
  const index = `${head}-- No transaction: can be repeated after it was cut off.\ncreate index concurrently a on tenon.executions (labels);\n`
  const good = [file('0003-labels', head + adds), file('0004-labels-index', index)]
  expect(faultsOf(good, 2)).toEqual([])
  const bad = [
    file('0004-skips', head + adds),
    file('0004-no-head', adds),
    file('0005_name', head + adds),
    file('0006-ends', `${head}${adds}commit;\n`),
    file('0007-blocks', index.replace(' concurrently', '')),
    file('0008-validates', `${head}alter table tenon.executions validate constraint a;\n`),
    file(
      '0009-key',
      `${head}alter table tenon.flows add constraint a foreign key (id) references tenon.a (id);\n`,
    ),
    { name: 'features/flows/more.sql', text: head + adds },
  ]
  expect(faultsOf(bad, 2)).toEqual([
    expect.stringContaining('0004-skips.sql: not the next number'),
    expect.stringContaining('0004-no-head.sql: does not say which builds'),
    expect.stringContaining('0005_name.sql: not the next number'),
    expect.stringContaining('0006-ends.sql ends its transaction by itself'),
    expect.stringContaining('0007-blocks.sql has a statement outside of a transaction'),
    expect.stringContaining('0008-validates.sql validates a constraint in a transaction'),
    expect.stringContaining('0009-key.sql adds a foreign key to a table that is there'),
    'features/flows/more.sql: not the next number',
  ])
})
