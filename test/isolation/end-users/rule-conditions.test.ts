/**
 * Hostile conditions of policies, as an attacker who has the rights of tenon_admin in SQL would send them: each is refused, or
 * the policy shows nothing of another workspace.
 */

import { beforeAll, expect, test } from 'vitest'
import { createTable, sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

let ours: TestWorkspace
let others: TestWorkspace[]
/** A table with a document in another workspace of the tenant, and one in another tenant. */
let foreign: string[]

beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ours = workspace
  others = [await addTestWorkspace(workspace), other]
  await Promise.all([ours, ...others].map(openCollectionsToAnon))
  foreign = await Promise.all(
    others.map(async (of) => `tenon_data."${(await createTable(of, { access: OPEN })).id}"`),
  )
})

const OPEN = { user: { read: true, create: true, update: true, delete: true } }

const quoted = (value: unknown) => `'${JSON.stringify(value).replaceAll("'", "''")}'`
const refOf = ({ tenantId, workspaceId }: TestWorkspace, user = '{"id":"mia"}') => [
  tenantId,
  workspaceId,
  user,
]
const ACTIONS = ['read', 'create', 'update', 'delete'] as const
/** The same condition for each action. */
const rulesOf = (condition: unknown) => ({
  user: Object.fromEntries(ACTIONS.map((action) => [action, condition])),
})

let tables = 0
/** The statements that declare a collection whose policies have the rules. */
function declaring(rules: unknown): { table: string; text: string } {
  tables += 1
  const id = `sch_01k5zzzzzzzzzzzzzzzzzz${String(tables).padStart(4, '0')}`
  const columns = '[{"property":"n","column":"c1","type":"bigint"}]'
  const [tenant, workspace] = refOf(ours)
  return {
    table: `tenon_data."${id}"`,
    text: `insert into tenon.schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns)
        values ('${id}', '${tenant}', '${workspace}', 'x${tables}', 'relational', '{}', 'off', '${columns}');
      select tenon.create_collection_table('${tenant}', '${workspace}', '${id}', ${quoted(rules)})`,
  }
}

/** Statements that change the rules of a collection that exists. */
const changing = (id: string, rules: unknown) =>
  `select tenon.change_collection_table(tenant_id, workspace_id, id, schema, mode, columns, indexes, '{"x": 1}', ${quoted(rules)})
   from tenon.schemas where id = '${id}'`

/** Creates the table; it is dropped with the transaction unless `kept`. */
const declare = (rules: unknown, after = 'commit') => {
  const { table, text } = declaring(rules)
  return { table, done: sqlAsRole('tenon_admin', refOf(ours), `${text}; ${after}`) }
}

const NO_EXPRESSIONS = [
  'true) ; drop table tenon.tenants; --',
  'true); drop table tenon.tenants; --',
  'true); create policy open on tenon.tenants to tenon_user using (true); --',
  'true) with check (true',
  'true) to public with check (true',
  'true --',
  'true /*',
  'true) or (true',
  'false) or (true',
  'true) union select from tenon.tenants where (true',
  'true) limit (1',
  'true, true',
  '(select 1, 2)',
  '1',
  "'x'",
  'null::int',
  '',
  ')(',
  'true))) or (((true',
  '$$',
  "'",
  'n = 1',
  'c1 = 1; commit',
  'copy tenon.tenants to stdout',
  'count(*) > 0',
  'row_number() over () = 1',
  'generate_series(1, 2) = 1',
  '1 / 0 = 1',
  // Functions that change settings, data or policies, or that read files.
  "set_config('tenon.tenant', 'x', true) is not null",
  "\"set_config\"('role', 'tenon_operator', true) is not null",
  "pg_catalog.set_config ('role', 'tenon_operator', true) is not null",
  "set_config/**/('role', 'tenon_operator', true) is not null",
  "current_setting('tenon.tenant') <> ''",
  "tenon.consume_quota('documents', 1) is null",
  'tenon.set_policies(null, null) is not null',
  'pg_sleep(5) is not null',
  "lo_import('/etc/passwd') is not null",
  "pg_read_file('/etc/passwd') <> ''",
]

test.each(NO_EXPRESSIONS)('condition %j – is refused by both functions', async (template) => {
  for (const rules of [rulesOf({ template, literals: [] }), { anon: { read: { template, literals: [] } } }]) {
    await expect(declare(rules).done).rejects.toThrow()
    const { id } = await createTable(ours)
    await expect(sqlAsRole('tenon_admin', refOf(ours), `${changing(id, rules)}; commit`)).rejects.toThrow()
    expect(await asSuperuser(`select access from tenon.schemas where id = $1`, [id])).toEqual([
      { access: {} },
    ])
  }
  expect((await asSuperuser('select from tenon.tenants')).length).toBeGreaterThan(1)
})

test.each([
  ['no object', 'yes'],
  ['a number', 7],
  ['a list', [true]],
  ['without a template', { literals: [] }],
  ['of null', { template: null, literals: [] }],
  ['with a place that has no literal', { template: 'c1::text = %1$L', literals: [] }],
  ['with literals that are no list', { template: 'c1::text = %1$L', literals: 'x' }],
  ['with the place of an identifier', { template: '%1$I', literals: ['true) or (true'] }],
  ['with the place of a text', { template: '%1$s', literals: ['true) or (true'] }],
  ['without literals', { template: 'true' }],
])('rule that is %s – is refused, or opens nothing', async (_what, rule) => {
  const { table, done } = declare(rulesOf(rule), `select '${ours.workspaceId}'; commit`)
  const error = await done.then(
    () => undefined,
    (reason: Error) => reason,
  )
  if (error !== undefined) return expect(error.message).not.toContain('internal')
  await expectClosedToOthers(table)
})

test('names of other roles and actions – are ignored', async () => {
  const rule = { template: 'true', literals: [] }
  const roles = {
    service: { read: rule },
    operator: { read: rule },
    public: { read: true },
    user: { truncate: true, all: rule },
  }
  const { table, done } = declare(roles)
  await done
  const policies = await asSuperuser<{ polname: string }>(
    `select polname from pg_policy where polrelid = '${table}'::regclass order by 1`,
  )
  // Anon keys follow the setting of the workspace.
  expect(policies.map(({ polname }) => polname)).toEqual(['anon_read', 'counting', 'owner', 'service'])
})

/** Expects that no caller of another workspace reads or writes the table. */
async function expectClosedToOthers(table: string): Promise<void> {
  await asSuperuser(
    `insert into ${table} (tenant_id, workspace_id, id, c1) values ($1, $2, gen_random_uuid(), 1)`,
    refOf(ours).slice(0, 2),
  )
  const refs = [
    ...others.map((of) => refOf(of)),
    ['', '', ''],
    [ours.tenantId, '', ''],
    ['', ours.workspaceId, ''],
  ]
  for (const role of ['tenon_user', 'tenon_anon'])
    for (const ref of refs)
      for (const text of [
        `select id from ${table}`,
        `update ${table} set c1 = 2 returning id`,
        `delete from ${table} returning id`,
      ])
        expect(await visibleTo(role, ref, text), `${role} ${ref} ${text}`).toEqual([])
}

/** The rows that a statement shows; none if it fails. */
const visibleTo = (role: string, ref: readonly string[], text: string) =>
  sqlAsRole(role, ref, text).catch(() => [])

/** Expressions that read other tables, or fail for some documents; each shows at most documents of the own workspace. */
const expressions = (): readonly string[] => [
  'true',
  'true or true',
  `exists (select from tenon.api_keys)`,
  `(select count(*) from tenon.schemas) > 0`,
  ...foreign.map((table) => `exists (select from ${table})`),
  ...foreign.map((table) => `(select count(*) from ${table} where c1 = 1) = 1`),
  `exists (select from pg_catalog.pg_authid)`,
  `1 / (c1 - 1) = 1`,
  `(tenon.caller() ->> 'id')::uuid is not null`,
]

test('condition that reads other tables, or fails – shows nothing of another workspace', async () => {
  for (const template of expressions()) {
    const { table, done } = declare(rulesOf({ template: template.replaceAll('%', '%%'), literals: [] }))
    const isCreated = await done.then(
      () => true,
      () => false,
    )
    if (!isCreated) continue
    await expectClosedToOthers(table)
    const own = (text: string) => visibleTo('tenon_user', refOf(ours), text)
    for (const text of [
      `select tenant_id, workspace_id from ${table}`,
      // After the condition has been evaluated, other statements of the transaction reach nothing more.
      `select from ${table}; select tenant_id, workspace_id from tenon.schemas`,
    ])
      for (const row of await own(text))
        expect([template, Object.values(row)]).toEqual([template, refOf(ours).slice(0, 2)])
    for (const other of foreign) {
      expect(await own(`select from ${table}; select id from ${other}`), template).toEqual([])
      // Whether documents of another workspace exist does not show either.
      if (template.includes(other)) expect(await own(`select id from ${table}`), template).toEqual([])
    }
  }
})
