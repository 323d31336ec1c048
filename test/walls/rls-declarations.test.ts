/** Declarations behind the walls: what may become of a table, by whom, and that it is walled in as before. */

import { expect, test } from 'vitest'
import { aTable, masked } from '../support/masked.ts'
import { aRoom, asSuperuser, call, type Room } from '../support/tenants.ts'

test('tables come from declarations alone, and a declaration is of the own tenant', async () => {
  const [a, b] = await Promise.all([aRoom(), aRoom()])
  const own = [a.tenantId, a.workspaceId]
  for (const mask of ['none', 'tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_anon']) {
    for (const schema of ['tenon', 'tenon_data', 'public'])
      await expect(masked(mask, own, `create table ${schema}.x (id int)`)).rejects.toThrow(
        /permission denied/,
      )
    await expect(masked(mask, own, "select tenon.has_rows('select true', 'a', 'b', 'c')")).rejects.toThrow(
      /permission denied/,
    )
    await expect(masked(mask, own, 'select tenon.make_table(null)')).rejects.toThrow(/permission denied/)
  }
  const id = 'sch_01k5zzzzzzzzzzzzzzzzzzzzzz'
  const insert = (of: Room, columns: string, schemaId = id) =>
    `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns)
     values ('${schemaId}', '${of.tenantId}', '${of.workspaceId}', 'x', 'relational', '{}', 'off', '${columns}')`
  await expect(masked('tenon_admin', own, insert(b, '[]'))).rejects.toThrow(/row-level security/)
  await expect(masked('tenon_admin', ['', ''], insert(a, '[]'))).rejects.toThrow(/row-level security/)
  await expect(masked('tenon_service', own, insert(a, '[]'))).rejects.toThrow(/permission denied/)
  const HOSTILE = [
    '{}',
    '[{"column":"c2","type":"text"}]',
    '[{"column":"c1; drop table tenon.tenants","type":"text"}]',
    '[{"column":"c1","type":"text); drop table tenon.tenants; --"}]',
    '[{"column":"c1","type":"numeric"}]',
    '[{"column":"c1"}]',
    '[null]',
    ...[
      { format: 'date-time', of: 'c1' },
      { format: 'date-time', of: 'tenant_id' },
      { format: "x'); drop table tenon.tenants; --", of: 'c1' },
      {},
      null,
    ].map(
      (canonical) => `[{"property":"x","column":"c1","type":"bigint"},
        {"property":"x","column":"c2","type":"text","canonical":${JSON.stringify(canonical).replaceAll("'", "''")}}]`,
    ),
    JSON.stringify(Array.from({ length: 201 }, (_, n) => ({ column: `c${n + 1}`, type: 'text' }))),
  ]
  for (const columns of HOSTILE)
    await expect(masked('tenon_admin', own, insert(a, columns))).rejects.toThrow(/not a/)
  await expect(masked('tenon_admin', own, insert(a, '[]', 'x"; drop table y'))).rejects.toThrow(
    /check constraint/,
  )
  // What is left must be able to work, or the refusals above prove nothing.
  const good =
    '[{"property":"x","column":"c1","type":"timestamptz"},{"property":"y","column":"c2","type":"uuid"}]'
  expect(await masked('tenon_admin', own, `${insert(a, good)} returning id`)).toEqual([{ id }])
})

test('anon keys do in the database what `access` says, and nothing else', async () => {
  const [room, other] = await Promise.all([aRoom(), aRoom()])
  const ref = [room.tenantId, room.workspaceId]
  const none = { create: false, update: false, delete: false }
  const statements = (table: string) => ({
    create: `insert into ${table} (id, c1) values (gen_random_uuid(), 2)`,
    update: `update ${table} set c1 = 3 where c1 = 1 returning c1`,
    delete: `delete from ${table} where c1 = 1 returning c1`,
  })
  for (const access of [
    none,
    { ...none, create: true },
    { ...none, update: true },
    { ...none, delete: true },
  ]) {
    const { id } = await aTable(room, { access: { anon: access } })
    for (const [action, text] of Object.entries(statements(`tenon_data."${id}"`))) {
      if (!access[action as keyof typeof access]) {
        await expect(masked('tenon_anon', ref, text)).rejects.toThrow(/permission denied/)
        continue
      }
      expect(await masked('tenon_anon', ref, text)).toHaveLength(action === 'create' ? 0 : 1)
      const foreign = masked('tenon_anon', [other.tenantId, other.workspaceId], text)
      if (action === 'create') await expect(foreign).rejects.toThrow(/row-level security|check constraint/)
      else expect(await foreign).toEqual([])
    }
  }
})

test('a declaration that changes makes no table of another shape than ours, and of nobody else', async () => {
  const [a, b] = await Promise.all([aRoom(), aRoom()])
  const { id } = await aTable(a)
  const own = [a.tenantId, a.workspaceId]
  const set = (what: string) => `update tenon.schemas set ${what} where id = '${id}' returning id`
  const HOSTILE = [
    `columns = '{}'`,
    `columns = '[{"property":"n","column":"c1","type":"text"}]'`,
    `columns = '[{"property":"x","column":"c1; drop table tenon.tenants","type":"text"}]'`,
    `columns = '[{"property":"x","column":"c2","type":"text); drop table tenon.tenants; --"}]'`,
    `columns = '[{"property":"x","column":"tenant_id","type":"text"}]'`,
    `columns = '[{"property":"x","column":"c2","type":"text"},{"property":"y","column":"c2","type":"text"}]'`,
    `indexes = '[{"name":"i1","columns":["extra"]}]'`,
    `indexes = '[{"name":"i1; drop table tenon.tenants","columns":["c1"]}]'`,
    `indexes = '[{"name":"i1","columns":["c1, extra"]}]'`,
    `indexes = '{}'`,
  ]
  for (const what of HOSTILE)
    await expect(masked('tenon_admin', own, set(what))).rejects.toThrow(/^not (a|an|column|index)/)
  for (const what of [
    `tenant_id = '${b.tenantId}'`,
    `relation = 'x'`,
    'revision = 7',
    `id = 'sch_x'`,
    `store = 'document'`,
  ])
    await expect(masked('tenon_admin', own, set(what))).rejects.toThrow(
      /permission denied|only be updated to DEFAULT/,
    )
  expect(await masked('tenon_admin', [b.tenantId, b.workspaceId], set(`mode = 'off'`))).toEqual([])
  for (const mask of ['tenon_service', 'tenon_anon', 'none'])
    await expect(masked(mask, own, set(`mode = 'off'`))).rejects.toThrow(/permission denied/)
  // What is left must be able to work, or the refusals above prove nothing.
  const good = `columns = '[{"property":"n","column":"c1","type":"bigint"},{"property":"x","column":"c2","type":"jsonb"}]',
    indexes = '[{"name":"i1","fields":["n"],"columns":["c1"],"unique":false,"state":"ready"}]'`
  expect(await masked('tenon_admin', own, set(good))).toEqual([{ id }])
})

test('a table that changed forces row-level security, has its policies, and counts as before', async () => {
  const room = await aRoom()
  const { id, collection } = await aTable(room)
  const as = room.operator
  const limits = { documents: 2 }
  await call('PUT', '/v1/quotas', { as, body: { workspace_id: room.workspaceId, limits } })
  const schema = { properties: { n: { type: 'integer' }, m: { type: 'string' } } }
  const changed = await call('PUT', `/v1/schemas/${id}`, {
    as,
    body: { schema, access: { anon: { read: false } } },
  })
  expect(changed.status).toBe(200)
  const [table] = await asSuperuser(
    `select relrowsecurity, relforcerowsecurity, (select array_agg(polname::text order by polname) from pg_policy
       where polrelid = c.oid) as policies from pg_class c where relname = $1`,
    [`${id}_1`],
  )
  const policies = ['counting', 'owner', 'service']
  expect(table).toEqual({ relrowsecurity: true, relforcerowsecurity: true, policies })
  const create = () =>
    call('POST', `/v1/collections/${collection}/documents`, { as: room.service, body: { n: 2 } })
  expect([(await create()).status, (await create()).body.code]).toEqual([201, 'quota_exceeded'])
})
