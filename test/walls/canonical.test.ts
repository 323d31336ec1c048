/** Canonical texts behind the walls: the database makes the same ones, and of tables that exist as of new ones. */

import { readdir, readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { canonicalOf, FORMATS } from '../../src/resources/schemas/canonical.ts'
import { points, uuids } from '../support/spellings.ts'
import { asSuperuser, unique } from '../support/tenants.ts'

test('the database and the API make the same canonical texts', async () => {
  const texts = fc.sample(fc.oneof(points, points, uuids), { numRuns: 30_000, seed: 20_261_121 })
  for (const format of FORMATS) {
    const rows = await asSuperuser<{ canonical: string | null }>(
      'select tenon.canonical($1, value) as canonical from unnest($2::text[]) with ordinality e (value, n) order by n',
      [format, texts],
    )
    const made = rows.map(({ canonical }, index) => [texts[index], canonical])
    expect(made).toEqual(texts.map((text) => [text, canonicalOf(format, text) ?? null]))
    expect(made.filter(([, canonical]) => canonical !== null).length).toBeGreaterThan(1_000)
  }
})

const FOLDER = new URL('../../src/platform/pg/migrations/', import.meta.url)
const TENANT = 'ten_01k5zzzzzzzzzzzzzzzzzzzzzz'
const WORKSPACE = 'ws_01k5zzzzzzzzzzzzzzzzzzzzzz'
const idOf = (n: number) => `sch_01k5zzzzzzzzzzzzzzzzzzzzz${n}`

/** A database of its own, in which what comes before migration 0019 was done. */
async function before0019(work: (client: Client, last: string) => Promise<void>): Promise<void> {
  const { databaseUrl } = inject('tenon')
  const name = unique('upgrade').replace('-', '_')
  await asSuperuser(`create database ${name} template template0`)
  const client = new Client({ connectionString: new URL(`/${name}`, databaseUrl).href })
  try {
    await client.connect()
    await client.query(`grant create, connect on database ${name} to tenon_owner`)
    const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.sql')).sort()
    const texts = await Promise.all(files.map((file) => readFile(new URL(file, FOLDER), 'utf8')))
    const at = files.findIndex((file) => file.startsWith('0019-'))
    for (const text of texts.slice(0, at)) await apply(client, text)
    await work(client, texts[at] ?? '')
  } finally {
    await client.end()
    await asSuperuser(`drop database ${name} with (force)`)
  }
}

async function apply(client: Client, text: string): Promise<void> {
  await client.query('begin; set local role tenon_owner')
  await client.query(text)
  await client.query('commit')
}

/** A declaration of before, with its table; and documents, of which `title` is a text without a format. */
async function declare(
  client: Client,
  n: number,
  unique_: boolean,
  points_: readonly string[],
): Promise<void> {
  const properties = {
    title: { type: 'string' },
    at: { type: 'string', format: 'date-time' },
    ref: { type: 'string', format: 'uuid' },
  }
  const columns = Object.keys(properties).map((property, index) => ({
    property,
    column: `c${index + 1}`,
    type: 'text',
  }))
  const indexes = [
    { name: 'i1', fields: ['at'], columns: ['c2'], unique: unique_, state: 'ready' },
    { name: 'i2', fields: ['title', 'at'], columns: ['c1', 'c2'], unique: false, state: 'ready' },
    { name: 'i3', fields: ['title'], columns: ['c1'], unique: false, state: 'ready' },
  ]
  await client.query(
    `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns, indexes)
     values ($1, $2, $3, $4, 'relational', $5, 'enforce', $6, $7)`,
    [idOf(n), TENANT, WORKSPACE, `c${n}`, { properties }, JSON.stringify(columns), JSON.stringify(indexes)],
  )
  for (const [index, at] of points_.entries())
    await client.query(
      `insert into tenon_data.${idOf(n)} (tenant_id, workspace_id, id, c1, c2) values ($1, $2, gen_random_uuid(), $3, $4)`,
      [TENANT, WORKSPACE, String(index), at],
    )
}

const definitions = async (client: Client, n: number) => {
  const { rows } = await client.query(
    `select indexdef from pg_indexes where schemaname = 'tenon_data' and tablename = $1 and indexname like '%\\_i_' order by indexname`,
    [idOf(n)],
  )
  return rows.map(({ indexdef }) => String(indexdef).replace(/.* USING btree /, ''))
}

test('tables that exist get canonical columns; a unique index that would not hold stays over the texts', async () => {
  const same = ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00+01:00']
  await before0019(async (client, migration) => {
    await client.query("insert into tenon.tenants (id, name, slug, state) values ($1, 'T', 't', 'active')", [
      TENANT,
    ])
    await client.query(
      `insert into tenon.workspaces (id, tenant_id, name, slug, bucket, state) values ($1, $2, 'W', 'w', 'b', 'active')`,
      [WORKSPACE, TENANT],
    )
    await declare(client, 1, true, [same[0] ?? '', '2025-01-01T00:00:00Z'])
    await declare(client, 2, true, same)
    await declare(client, 3, false, same)
    await apply(client, migration)
    const { rows } = await client.query(
      'select columns, indexes, revision, last_column from tenon.schemas order by collection',
    )
    const canonical = (property: string, column: string, format: string, of: string) => ({
      ...{ property, column, type: 'text', canonical: { format, of } },
    })
    const texts = ['title', 'at', 'ref'].map((property, n) => ({
      property,
      column: `c${n + 1}`,
      type: 'text',
    }))
    for (const row of rows) {
      expect(row.columns).toEqual([
        ...texts,
        canonical('at', 'c4', 'date-time', 'c2'),
        canonical('ref', 'c5', 'uuid', 'c3'),
      ])
      expect(row.revision).toBe(0)
      expect(row.indexes[1]).toMatchObject({ name: 'i2', fields: ['title', 'at'], columns: ['c1', 'c4'] })
      expect(row.indexes[2]).toMatchObject({ name: 'i3', columns: ['c1'] })
    }
    expect(rows.map(({ indexes }) => indexes[0].columns)).toEqual([['c4'], ['c2'], ['c4']])
    expect(await definitions(client, 1)).toEqual(['(c4)', '(c1, c4, id)', '(c1, id)'])
    expect(await definitions(client, 2)).toEqual(['(c2)', '(c1, c4, id)', '(c1, id)'])
    expect(await definitions(client, 3)).toEqual(['(c4, id)', '(c1, c4, id)', '(c1, id)'])
    const { rows: filled } = await client.query(`select distinct c4 from tenon_data.${idOf(3)}`)
    expect(filled).toEqual([{ c4: canonicalOf('date-time', same[0] ?? '') }])
    await expect(
      client.query(
        `insert into tenon_data.${idOf(1)} (tenant_id, workspace_id, id, c2) values ($1, $2, gen_random_uuid(), $3)`,
        [TENANT, WORKSPACE, same[1]],
      ),
    ).rejects.toThrow(/duplicate key/)
    // Whoever changes the declaration goes on from there.
    await client.query("update tenon.schemas set mode = 'warn', columns = columns - 3 where id = $1", [
      idOf(3),
    ])
    const { rows: after } = await client.query('select last_column from tenon.schemas where id = $1', [
      idOf(3),
    ])
    expect(after).toEqual([{ last_column: 5 }])
  })
})
