/** Changes to the audit log by the owner of the database are detected. */

import { expect, test } from 'vitest'
import { entriesOfWorkspace, verified } from '../../support/clients/audit.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  asSuperuser,
  call,
  provisionTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

/** A tenant with eight entries: itself, its workspace, two keys, and four more. */
async function createChain(): Promise<TestWorkspace> {
  const workspace = await provisionTestWorkspace()
  for (const name of ['a', 'b', 'c', 'd']) {
    const body = { workspace_id: workspace.workspaceId, kind: 'anon', name }
    expect((await call('POST', '/v1/api-keys', { as: workspace.operator, body })).status).toBe(201)
  }
  expect(await verified(workspace)).toMatchObject({ ok: true, checked: 8, first_bad: null, head: { seq: 8 } })
  return workspace
}

/** Bypasses the triggers, which takes a superuser. */
const tamper = ({ tenantId }: TestWorkspace, text: string) =>
  asSuperuser(`set session_replication_role = replica; ${text.replaceAll('$T', `tenant_id = '${tenantId}'`)}`)

test.each([
  [
    'entry changed',
    `update tenon.audit set entry = replace(entry, '"done"', '"denied"') where $T and seq = 5`,
    5,
    'content',
  ],
  [
    'entry hidden from its workspace',
    `update tenon.audit set workspace_id = null where $T and seq = 5`,
    5,
    'content',
  ],
  ['entry deleted', 'delete from tenon.audit where $T and seq = 5', 6, 'missing'],
  [
    'two entries swapped',
    `update tenon.audit set seq = -seq where false; update tenon.audit a set entry = b.entry, hash = b.hash
     from tenon.audit b where a.tenant_id = b.tenant_id and a.$T and (a.seq, b.seq) in ((5, 6), (6, 5))`,
    5,
    'content',
  ],
  [
    'entry changed and hashed again',
    `update tenon.audit set entry = replace(entry, '"done"', '"denied"'),
      hash = tenon.audit_hash(prev_hash, seq, replace(entry, '"done"', '"denied"')) where $T and seq = 5`,
    6,
    'link',
  ],
  ['last entries deleted', 'delete from tenon.audit where $T and seq > 6', 7, 'head'],
  ['all entries deleted', 'delete from tenon.audit where $T', 1, 'head'],
  ['first entries deleted', 'delete from tenon.audit where $T and seq < 3', 3, 'missing'],
  ['entry appended', appendEntrySql(), 9, 'head'],
] as const)('hash chain: %s: detected', async (_what, text, seq, reason) => {
  const workspace = await createChain()
  await tamper(workspace, text)
  expect(await verified(workspace)).toMatchObject({ ok: false, next: null, first_bad: { seq, reason } })
})

function appendEntrySql(): string {
  return `insert into tenon.audit (tenant_id, seq, entry, prev_hash, hash, workspace_id)
    select tenant_id, 9, entry, hash, tenon.audit_hash(hash, 9, entry), workspace_id from tenon.audit where $T and seq = 8`
}

test('hash chain: end and head forged: detected with an anchor kept elsewhere', async () => {
  const workspace = await createChain()
  const { head } = await verified(workspace)
  const anchor = `&anchor=${head.seq}:${head.hash}`
  expect((await verified(workspace, anchor)).ok).toBe(true)
  await tamper(
    workspace,
    `delete from tenon.audit where $T and seq = 8; update tenon.audit_heads h set seq = 7, hash = a.hash
     from tenon.audit a where h.tenant_id = a.tenant_id and a.$T and a.seq = 7`,
  )
  // On its own the chain is consistent.
  expect((await verified(workspace)).ok).toBe(true)
  expect(await verified(workspace, anchor)).toMatchObject({
    ok: false,
    first_bad: { seq: 8, reason: 'anchor' },
  })
})

test('hash chain: verified from the middle: includes the link to the entry before', async () => {
  const workspace = await createChain()
  expect(await verified(workspace, '&after=5')).toMatchObject({ ok: true, checked: 3, next: null })
  await tamper(workspace, 'delete from tenon.audit where $T and seq = 6')
  expect(await verified(workspace, '&after=5')).toMatchObject({ first_bad: { seq: 7, reason: 'missing' } })
})

test('audit table: login roles: cannot change or add rows; superuser: only by disabling triggers', async () => {
  const workspace = await createChain()
  const ref = [workspace.tenantId, '']
  const statements = [
    `update tenon.audit set entry = entry where seq = 1`,
    `delete from tenon.audit where seq = 1`,
    'truncate tenon.audit',
    `update tenon.audit_heads set seq = 0`,
    'delete from tenon.audit_heads',
    `insert into tenon.audit (tenant_id, seq, entry, prev_hash, hash) select tenant_id, 99, entry, hash, hash
     from tenon.audit where seq = 1`,
  ]
  for (const statement of statements) {
    for (const mask of ['tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_anon'])
      await expect(sqlAsRole(mask, ref, statement), `${mask}: ${statement}`).rejects.toThrow(
        /permission denied/,
      )
    if (statement.startsWith('insert')) continue
    await expect(asSuperuser(statement), statement).rejects.toThrow(/only appended to/)
    await expect(
      asSuperuser(`set role tenon_owner; set tenon.tenant = '${workspace.tenantId}'; ${statement}`),
    ).rejects.toThrow(/only appended to|denied/)
  }
  for (const mask of ['tenon_admin', 'tenon_service', 'tenon_anon'])
    await expect(sqlAsRole(mask, ref, "select tenon.append_audit('{a}', '{a}', '{}')")).rejects.toThrow(
      /denied/,
    )
  expect((await entriesOfWorkspace(workspace)).length).toBe(8)
})
