/** Several people who delete, restore and import the same thing at once: each request has one outcome, and what is acknowledged is so. */

import { expect, test } from 'vitest'
import {
  endOf,
  exportArchive,
  exportTenantArchive,
  sendArchive,
  sendTenantArchive,
} from '../../support/fixtures/archives.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'

const NOUNS = ['workspace', 'tenant'] as const
type Noun = (typeof NOUNS)[number]

const idOf = (noun: Noun, { tenantId, workspaceId }: TestWorkspace) =>
  noun === 'tenant' ? tenantId : workspaceId

/** Deletions that have not ended, of a tenant or a workspace. */
const openDeletions = (id: string) =>
  asSuperuser<{ id: string; state: string }>(
    "select id, state from tenon.operations where target = $1 and type like '%.delete' and finished_at is null",
    [id],
  )

test.each(NOUNS)(
  '%s: deleted and restored several times at once: each is done or refused, and record and operation agree',
  async (noun) => {
    const workspace = await createTestWorkspace()
    const { operator: as, service } = workspace
    const id = idOf(noun, workspace)
    const path = `/v1/${noun}s/${id}`
    await call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 } })
    const remove = () => call('DELETE', path, { as })
    const restore = () => call('POST', `${path}/restore`, { as })
    const stateOf = async () => (await call('GET', path, { as })).body
    const replies: Reply[] = []
    for (const first of Array.from({ length: repeated(4, 40) }, (_, n) => n % 2 === 0)) {
      // A deletion is under way, or none is.
      if (first) await remove()
      replies.push(...(await Promise.all([remove(), restore(), remove(), restore()])))
      const { state, delete_after } = await stateOf()
      const open = await openDeletions(id)
      expect([state, delete_after !== null, open.length]).toEqual(
        state === 'deleting' ? ['deleting', true, 1] : ['active', false, 0],
      )
      expect((await restore()).status).toBe(200)
    }
    for (const { status, body } of replies)
      expect(status === 409 ? [body.code, body.detail] : [status, undefined]).toEqual(
        status === 409
          ? ['state_conflict', expect.stringMatching(/[Ss]end the request again/)]
          : [expect.toBeOneOf([200, 202]), undefined],
      )
    expect(await openDeletions(id)).toEqual([])
    const read = () => call('GET', '/v1/collections/notes/documents', { as: service })
    expect(
      (await eventually(async () => ((await read()).status === 200 ? read() : undefined))).body.data,
    ).toHaveLength(1)
  },
)

test('workspace whose purge is due: deleted by one and restored by another at once: it is purged, or goes on as it was', async () => {
  const { operator: as, service, workspaceId } = await createTestWorkspace()
  const path = `/v1/workspaces/${workspaceId}`
  await call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 } })
  const all = await Promise.all([
    call('DELETE', `${path}?grace_days=0`, { as }),
    ...[1, 2, 3].map(() => call('POST', `${path}/restore`, { as })),
    call('DELETE', `${path}?grace_days=0`, { as }),
  ])
  const deletion = all.find(({ status }) => status === 202)?.body.id
  const restored = await call('POST', `${path}/restore`, { as })
  expect(restored.status).toBe(200)
  if (deletion !== undefined)
    expect((await call('GET', `/v1/operations/${deletion}`, { as })).body.state).toBe('cancelled')
  expect(await openDeletions(workspaceId)).toEqual([])
  const read = () => call('GET', '/v1/collections/notes/documents', { as: service })
  expect(
    (await eventually(async () => ((await read()).status === 200 ? read() : undefined))).body.data,
  ).toHaveLength(1)
})

test.each([
  ['workspace', exportArchive, sendArchive],
  ['tenant', exportTenantArchive, sendTenantArchive],
] as const)(
  'archive of a %s: sent several times at once with one slug: one is imported, the others are refused',
  async (noun, make, send) => {
    const from = await createTestWorkspaceWithStorage()
    const archive = await make(from)
    const slug = unique('same')
    const replies = await Promise.all([1, 2, 3].map(() => send(from, archive, { slug })))
    expect(replies.map(({ status }) => status).sort()).toEqual([202, 409, 409])
    for (const { status, body } of replies)
      if (status === 409)
        expect([body.code, body.detail]).toEqual(['conflict', expect.stringContaining(slug)])
    const accepted = replies.find(({ status }) => status === 202)
    const { state, target } = await endOf(from, accepted?.body.id)
    expect(state).toBe('succeeded')
    const made = await asSuperuser(`select id, state from tenon.${noun}s where slug = $1`, [slug])
    expect(made).toEqual([{ id: target, state: 'active' }])
    // Of the others nothing is stored. Those of tenants would be records of tenants that do not exist.
    const stored = await asSuperuser<{ target: string }>(
      `select target from tenon.operations where type = $1 and expires_at is not null
         and (tenant_id = $2 or tenant_id not in (select id from tenon.tenants))`,
      [`${noun}.import`, noun === 'workspace' ? from.tenantId : target],
    )
    expect(stored.filter((one) => one.target !== target)).toEqual([])
  },
)

test('slug of what is being deleted: refused to another workspace or tenant, so that it can be restored with it', async () => {
  const { operator: as, tenantId, workspaceId } = await createTestWorkspace()
  const slugOf = async (path: string) => (await call('GET', path, { as })).body.slug
  const headers = { prefer: 'wait=30' }
  const workspace = `/v1/workspaces/${workspaceId}`
  const tenant = `/v1/tenants/${tenantId}`
  const [ofWorkspace, ofTenant] = [await slugOf(workspace), await slugOf(tenant)]
  const body = { tenant_id: tenantId, name: 'Next', slug: ofWorkspace, bucket: null }
  for (const [path, noun, wanted, slug] of [
    [workspace, 'workspaces', body, ofWorkspace],
    [tenant, 'tenants', { name: 'Next', slug: ofTenant }, ofTenant],
  ] as const) {
    expect((await call('DELETE', path, { as })).status).toBe(202)
    const refused = await call('POST', `/v1/${noun}`, { as, body: wanted, headers })
    expect([refused.status, refused.body.code, refused.body.detail]).toEqual([
      ...[409, 'conflict', expect.stringContaining(slug)],
    ])
    const restored = await call('POST', `${path}/restore`, { as })
    expect([restored.status, restored.body.state, restored.body.slug]).toEqual([200, 'active', slug])
  }
})
