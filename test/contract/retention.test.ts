/** docs/retention.md has every table with rows of tenants: what bounds it, or why it needs no bound. */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { Services } from '../../src/features/tenants/workspace-settings.ts'
import { asSuperuser } from '../support/fixtures/tenants.ts'

const page = await readFile('docs/retention.md', 'utf8')

/** Rows of the table below a heading, as cells. */
function rowsBelow(heading: string): string[][] {
  const section = page.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('| '))
  return lines.slice(1).map((line) => line.slice(2, -2).split(' | '))
}

const named = (cell = '') => [...cell.matchAll(/`([a-z_]+)`/g)].map(([, name = '']) => name)
const growing = rowsBelow('What grows with use')
const made = rowsBelow('What grows with what is made')

/** A table that integration/runs/third-kind.test.ts creates and drops, perhaps meanwhile. */
const OF_ANOTHER_TEST = 'deliveries'

test('tables with rows of tenants: each has a period or a reason, once', async () => {
  const tables = await asSuperuser<{ name: string }>(`
    select c.relname as name from pg_class c
    where c.relnamespace = 'tenon'::regnamespace and c.relkind in ('r', 'p') and (c.relname in ('tenants', 'issuer_state')
      or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id'))`)
  const names = tables.map(({ name }) => name).filter((name) => name !== OF_ANOTHER_TEST)
  const listed = [...growing.flatMap(([, table]) => named(table)), ...made.flatMap(([table]) => named(table))]
  expect(listed.toSorted()).toEqual(names.toSorted())
})

test('periods: each setting is in the table, with its default or "for ever", and the table names no other', () => {
  const settings = [
    ...Object.keys(Services.properties.retention.properties).map((name) => `retention.${name}`),
    ...Object.keys(Services.properties.tenant.properties.retention.properties).map(
      (name) => `tenant.retention.${name}`,
    ),
  ]
  const listed = growing.flatMap(([, , , , setting = '']) =>
    [...setting.matchAll(/`([a-z_]+\.[a-z_.]+)`/g)].map(([, name = '']) => name),
  )
  expect(listed.toSorted()).toEqual(settings.toSorted())
  for (const [what, , , kept] of growing) expect(kept, what).toMatch(/\w/)
})
