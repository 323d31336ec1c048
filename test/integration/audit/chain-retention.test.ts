/** Retention of hash chains: old entries are removed at a checkpoint that the platform has signed, and what remains still verifies. */

import { beforeAll, expect, inject, test } from 'vitest'
import { ChainSigner } from '../../../src/access/audit/chain-signer.ts'
import { RETENTION_LIMITS } from '../../../src/features/retention/limits.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  auditChain,
  callChain,
  lookedAt,
  makeChainDue,
  removed,
  removedUpTo,
  type TestChain,
  tamper,
} from '../../support/fixtures/chains.ts'
import {
  asSuperuser,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const CHAINS = [
  ['audit log', () => auditChain(workspace)],
  ['calls of an MCP server', () => callChain(workspace)],
] as const

test.each(CHAINS)(
  '%s: entries older than the period: removed in batches, the rest verifies, also by an anchor',
  async (_name, create) => {
    const chain = create()
    const count = 2 * RETENTION_LIMITS.rowsMax + 300
    await chain.append({ days: 401, count })
    const { head: old } = await chain.verify()
    await chain.append({ days: 399, count: 3 })
    const { head } = await chain.verify()
    expect(await removedUpTo(chain, count)).toMatchObject({
      ok: true,
      checked: 3,
      next: null,
      first_bad: null,
      head,
    })
    expect(await chain.verify(`&anchor=${old.seq}:${old.hash}`)).toMatchObject({ ok: true, checkpoint: old })
    const removed = await chain.verify(`&anchor=${old.seq - 1}:${old.hash}`)
    expect([removed['code'], removed['detail']]).toEqual([
      'validation_failed',
      `Retention has removed the entries up to ${count}, so the anchor ${count - 1} cannot be checked. Use a head that was recorded later.`,
    ])
    // A reader whose next entries were removed meanwhile goes on after them.
    expect(await chain.verify('&after=7')).toMatchObject({ ok: true, checked: 3 })
    await chain.append({ days: 0, count: 1 })
    expect(await chain.verify()).toMatchObject({ ok: true, checked: 4, head: { seq: count + 4 } })
  },
)

test('chain of which everything has expired: is empty, verifies, and new entries follow', async () => {
  const chain = auditChain(workspace)
  await chain.append({ days: 500, count: 4 })
  expect(await removedUpTo(chain, 4)).toMatchObject({ ok: true, checked: 0, head: { seq: 4 } })
  await tamper(chain, 'update tenon.audit_heads set seq = 5 where $E')
  expect(await chain.verify()).toMatchObject({ ok: false, first_bad: { seq: 5, reason: 'head' } })
})

/** What somebody who owns the database may do to a chain whose first entries were removed. @param n an entry that is kept */
const TAMPERINGS: readonly ((table: string, n: number, base: number) => string)[] = [
  (table, n) => `update tenon.${table} set entry = replace(entry, '202', '212') where $E and seq = ${n}`,
  (table, n) => `delete from tenon.${table} where $E and seq = ${n}`,
  (table, n) => `delete from tenon.${table} where $E and seq >= ${n}`,
  (table, n) => `delete from tenon.${table} where $E and seq <= ${n}`,
  (table, n) => `update tenon.${table} set hash = sha256(hash) where $E and seq = ${n}`,
  () => 'delete from tenon.chain_checkpoints where $C',
  () => `update tenon.chain_checkpoints set signature = signature || 'A' where $C`,
  () => `update tenon.chain_checkpoints set hash = sha256(hash) where $C`,
  (_table, _n, base) => `update tenon.chain_checkpoints set seq = ${base} - 1 where $C`,
  // Cut further, without a signature for it.
  (table, n) => `update tenon.chain_checkpoints set seq = ${n},
      hash = (select e.hash from tenon.${table} e where $E and e.seq = ${n}) where $C;
    delete from tenon.${table} where $E and seq <= ${n}`,
]

test.each([1, 2, 3, 4])(
  'chains cut at random places: verify; after each tampering they do not (seed %i)',
  async (seed) => {
    const random = randomOf(seed)
    const trials = TAMPERINGS.map((change, index) => {
      const chain = index % 2 === seed % 2 ? auditChain(workspace) : callChain(workspace)
      // The last entry that has expired, the last of all, and one that is kept.
      const base = 2 + random(40)
      const last = base + 2 + random(20)
      const after = base + random(last - base)
      return { chain, change, base, last, after, about: `seed ${seed}, tampering ${index}` }
    })
    await Promise.all(
      trials.map(async ({ chain, change, base, last, after, about }) => {
        await chain.append({ days: 401 + random(1_000), count: base })
        await chain.append({ days: random(399), count: last - base })
        expect(await removedUpTo(chain, base), about).toMatchObject({ ok: true, checked: last - base })
        expect(await chain.verify(`&after=${after}`), about).toMatchObject({
          ok: true,
          checked: last - after,
        })
        await tamper(chain, change(chain.table, after + 1, base))
        expect((await chain.verify()).ok, about).toBe(false)
      }),
    )
  },
)

test('chain whose expired entries were changed: nothing is removed, so that verification still finds it', async () => {
  const chains = [auditChain(workspace), callChain(workspace)]
  await Promise.all(
    chains.map(async (chain) => {
      await chain.append({ days: 500, count: 5 })
      await tamper(chain, `update tenon.${chain.table} set hash = sha256(hash) where $E and seq = 3`)
      await makeChainDue(chain)
      await lookedAt(chain)
      expect(await chain.verify()).toMatchObject({
        checkpoint: null,
        first_bad: { seq: 3, reason: 'content' },
      })
    }),
  )
})

test('chain that the functions of the database call valid: the worker computes the hashes, signs no cut, and verification finds it', async () => {
  const chains = [auditChain(workspace), callChain(workspace)]
  const mark = unique('forged')
  const lying = (text: string) =>
    asSuperuser(`create or replace function tenon.audit_hash(prev_hash bytea, seq bigint, entry text)
    returns bytea language sql immutable parallel safe return ${text}`)
  const right = "sha256(convert_to(encode(prev_hash, 'hex') || E'\\n' || seq || E'\\n' || entry, 'UTF8'))"
  // It hashes a forged entry as the one that stood there.
  await lying(`case when entry like '%${mark}%' then decode(entry::json ->> 'was', 'hex') else ${right} end`)
  try {
    await Promise.all(
      chains.map(async (chain) => {
        await chain.append({ days: 500, count: 5 })
        await tamper(
          chain,
          `update tenon.${chain.table} set entry = (entry::jsonb || jsonb_build_object('forged', '${mark}', 'was', encode(hash, 'hex')))::text
             where $E and seq = 3`,
        )
        await makeChainDue(chain)
        await lookedAt(chain)
        // A second look comes after the first one has ended.
        await makeChainDue(chain)
        await lookedAt(chain)
        const found = { checkpoint: null, first_bad: { seq: 3, reason: 'content' } }
        expect(await chain.verify()).toMatchObject(found)
      }),
    )
  } finally {
    await lying(right)
  }
})

test('entry that cannot be read: its chain is not cut, and the chains of the same round are', async () => {
  const chains = [auditChain(workspace), auditChain(workspace), auditChain(workspace)]
  const [bad, ...good] = chains as [TestChain, ...TestChain[]]
  for (const chain of chains) await chain.append({ days: 500, count: 3 })
  await tamper(bad, `update tenon.audit set entry = 'no JSON' where $E and seq = 2`)
  await asSuperuser(
    `update tenon.audit_heads set retention_due_at = '2000-01-01' where ${chains.map(({ rows }) => `(${rows})`).join(' or ')}`,
  )
  await Promise.all(good.map((chain) => removed(chain, 3)))
  expect(await bad.verify()).toMatchObject({ checkpoint: null, first_bad: { seq: 2, reason: 'content' } })
})

test('checkpoint of another chain, entry or installation: is no signature', async () => {
  const signer = new ChainSigner(new Secrets(inject('tenon').masterKey))
  const checkpoint = { tenant_id: 'ten_a', workspace_id: '', chain: 'audit', seq: 3, hash: 'ab'.repeat(32) }
  const signature = await signer.sign(checkpoint)
  expect(await signer.verify(signature, checkpoint)).toBe(true)
  for (const other of [
    { tenant_id: 'ten_b' },
    { workspace_id: 'ws_a' },
    { chain: 'mcp_a' },
    { seq: 4 },
    { hash: 'ba'.repeat(32) },
  ])
    expect(await signer.verify(signature, { ...checkpoint, ...other })).toBe(false)
  const foreign = new ChainSigner(new Secrets(Buffer.alloc(32, 7).toString('base64')))
  expect(await signer.verify(await foreign.sign(checkpoint), checkpoint)).toBe(false)
})

test('functions that cut chains: the reconciler alone may call them, and nobody deletes entries without a checkpoint', async () => {
  const { tenantId, workspaceId } = workspace
  const cut = `select tenon.cut_chain('audit', '${tenantId}', '', 'audit', 0, 1, '${'ab'.repeat(32)}', 'x')`
  const read = `select tenon.chain_entries('audit', '${tenantId}', '', 'audit', 0, 1)`
  for (const role of ['tenon_admin', 'tenon_operator', 'tenon_service', 'tenon_anon'])
    for (const text of [cut, read])
      await expect(sqlAsRole(role, [tenantId, workspaceId], text), role).rejects.toThrow(/permission denied/)
  await expect(sqlAsRole('tenon_reconciler', ['', ''], cut)).rejects.toThrow(/has changed up to entry 1/)
  for (const table of ['audit', 'mcp_calls'])
    await expect(sqlAsRole('tenon_reconciler', ['', ''], `select entry from tenon.${table}`)).rejects.toThrow(
      /permission denied/,
    )
  await expect(asSuperuser(`delete from tenon.audit where tenant_id = '${tenantId}'`)).rejects.toThrow(
    /only appended to/,
  )
  await expect(asSuperuser('delete from tenon.chain_checkpoints')).rejects.toThrow(/only appended to/)
})
