/**
 * Hostile texts in rules: each stays a value of the policy that it is compiled to, so that the rule admits the documents that have
 * this text, and shows nothing of another workspace.
 */

import { beforeAll, expect, test } from 'vitest'
import { createTable, sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let ours: TestWorkspace
let others: TestWorkspace[]

beforeAll(async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  ours = workspace
  others = [await addTestWorkspace(workspace), other]
})

const refOf = ({ tenantId, workspaceId }: TestWorkspace, user = '{"id":"mia"}') => [
  tenantId,
  workspaceId,
  user,
]

const HOSTILE = [
  "'",
  "''",
  "\\'",
  "' or true --",
  "') or (true",
  "'); drop table tenon.tenants; --",
  "' with check (true",
  "' union select from tenon.tenants --",
  "E'\\''",
  '\\',
  '$$',
  '$1',
  '$2::jsonb',
  '%',
  '%1$L',
  '%s%I',
  '"',
  '/* */',
  ';',
  '\n',
  'tenant_id = tenon.tenant()',
  "set_config('role', 'tenon_operator', true)",
  "pg_read_file('/etc/passwd')",
  '\u{1F600}',
]
/** A text that begins with a dollar sign is written with two of them in a rule. */
const inRule = (text: string) => (text.startsWith('$') ? `$${text}` : text)
const ALL_IN_RULE = HOSTILE.map(inRule)
const SCHEMA = { properties: { title: { type: 'string' }, tags: { type: 'array' } } }

/** Declares a collection whose rule has the texts, with a document for each, and one that no rule admits. */
async function declare(rule: unknown, onUpdate = rule): Promise<string> {
  const body = {
    ...{ workspace_id: ours.workspaceId, collection: unique('c'), store: 'relational', schema: SCHEMA },
    access: { user: { read: rule, create: rule, update: onUpdate, delete: rule } },
  }
  const { status, body: schema } = await call('POST', '/v1/schemas', { as: ours.operator, body })
  expect(status, JSON.stringify([rule, schema])).toBe(201)
  const ops = [...HOSTILE, 'other'].map((title) => ({ op: 'create', data: { title, tags: [title] } }))
  const path = `/v1/collections/${schema.collection}/batch`
  const made = await call('POST', path, { as: ours.service, body: { ops } })
  expect(made.body.committed, JSON.stringify(made.body)).toBe(true)
  return `tenon_data."${schema.id}"`
}

/** The documents that a user of the workspace sees. */
const titlesOf = async (table: string): Promise<string[]> =>
  (await sqlAsRole<{ c1: string }>('tenon_user', refOf(ours), `select c1 from ${table}`)).map(({ c1 }) => c1)

/** Expects that no caller of another workspace reads or writes the table. */
async function expectClosedToOthers(table: string): Promise<void> {
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
        `update ${table} set c1 = 'x' returning id`,
        `delete from ${table} returning id`,
      ])
        expect(await sqlAsRole(role, ref, text).catch(() => []), `${role} ${ref} ${text}`).toEqual([])
}

test.each([
  ['a list', { title: { in: ALL_IN_RULE } }, HOSTILE],
  ['an array', { tags: { ov: ALL_IN_RULE } }, HOSTILE],
  ['a negated group', { $not: { title: { in: ALL_IN_RULE } } }, ['other']],
])(
  'hostile texts in %s of a rule: admit the documents that have them, in the workspace alone',
  async (_in, rule, admitted) => {
    const table = await declare(rule)
    expect((await titlesOf(table)).sort()).toEqual([...admitted].sort())
    await expectClosedToOthers(table)
    expect((await asSuperuser('select from tenon.tenants')).length).toBeGreaterThan(1)
  },
)

test.each(HOSTILE)('hostile text %j alone in a rule: admits its document', async (text) => {
  const table = await declare({ $or: [{ title: { eq: inRule(text) } }, { _owner: { eq: inRule(text) } }] })
  expect(await titlesOf(table)).toEqual([text])
})

test('hostile text in a rule that compares with the document before: is a value of its trigger', async () => {
  const table = await declare(true, { title: { in: [...ALL_IN_RULE, '$old.title'] } })
  const update = (title: string) =>
    sqlAsRole(
      'tenon_user',
      refOf(ours),
      `update ${table} set extra = '{"n":1}' where c1 = '${title.replaceAll("'", "''")}' returning c1`,
    )
  for (const text of HOSTILE) expect(await update(text), text).toEqual([{ c1: text }])
})

test('table of a collection: the hostile declaration of another tenant changes nothing in it', async () => {
  const [foreign] = others
  if (foreign === undefined) throw new TypeError('there is another workspace')
  const { id } = await createTable(foreign, { access: { user: { read: true } } })
  await declare({ title: { in: ALL_IN_RULE } })
  expect(await sqlAsRole('tenon_user', refOf(ours), `select id from tenon_data."${id}"`)).toEqual([])
  expect(await sqlAsRole('tenon_user', refOf(foreign), `select c1 from tenon_data."${id}"`)).toEqual([
    { c1: '1' },
  ])
})
