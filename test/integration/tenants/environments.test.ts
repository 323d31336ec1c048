/** The environment of a workspace: set by its creation and by updates, shown wherever the workspace is, and moved with it. */

import { expect, test } from 'vitest'
import { endOf, exportArchive, sendArchive } from '../../support/fixtures/archives.ts'
import { call, createTestWorkspace, operator, type Reply, unique } from '../../support/fixtures/tenants.ts'

const environmentOf = ({ body }: Reply) => body.environment

test('environment: production unless the creation names another; an update changes it, and nothing else does', async () => {
  const { tenantId, operator: as } = await createTestWorkspace()
  const create = (more: object) =>
    call('POST', '/v1/workspaces', {
      as,
      headers: { prefer: 'wait=30' },
      body: { tenant_id: tenantId, name: 'W', slug: unique('w'), bucket: null, ...more },
    })
  const unmarked = await create({})
  const marked = await create({ environment: 'development' })
  expect([unmarked.status, environmentOf(unmarked)]).toEqual([201, 'production'])
  expect([marked.status, environmentOf(marked)]).toEqual([201, 'development'])
  expect((await create({ environment: 'staging' })).body.code).toBe('validation_failed')
  const path = `/v1/workspaces/${marked.body.id}`
  const update = (body: object) => call('PATCH', path, { as, body })
  expect(environmentOf(await update({ name: 'Renamed' }))).toBe('development')
  expect(environmentOf(await update({ environment: 'production' }))).toBe('production')
  expect((await call('GET', path, { as })).body).toMatchObject({ name: 'Renamed', environment: 'production' })
  const { body: listed } = await call('GET', `/v1/workspaces?tenant_id=${tenantId}`, { as })
  expect(listed.data.map(({ environment }: { environment: string }) => environment)).toEqual(
    Array(3).fill('production'),
  )
})

test('environment: creations and updates: the audit log names it', async () => {
  const { tenantId, operator: as } = await createTestWorkspace()
  const body = { tenant_id: tenantId, name: 'W', slug: unique('w'), bucket: null, environment: 'development' }
  // The answer is the job, which does not say it.
  const { body: job } = await call('POST', '/v1/workspaces', { as, body })
  const made = () => call('GET', `/v1/workspaces/${job.target}`, { as })
  await expect.poll(async () => (await made()).body.state).toBe('active')
  await call('PATCH', `/v1/workspaces/${job.target}`, { as, body: { environment: 'production' } })
  await call('PATCH', `/v1/workspaces/${job.target}`, { as, body: { name: 'V' } })
  const log = async (operation: string) => {
    const query = new URLSearchParams({ tenant_id: tenantId, operation })
    const { body: page } = await call('GET', `/v1/audit?${query}`, { as })
    return page.data.map(({ detail }: { detail?: object }) => detail ?? null)
  }
  expect(await log('workspace.create')).toContainEqual({ environment: 'development' })
  expect(await log('workspace.update')).toEqual(
    expect.arrayContaining([
      { environment: 'production' },
      expect.not.objectContaining({ environment: expect.anything() }),
    ]),
  )
})

test('environment: exported and imported: that of the archive, or the one that the import names', async () => {
  const as = await operator()
  const { tenantId } = await createTestWorkspace()
  const { body: from } = await call('POST', '/v1/workspaces', {
    as,
    headers: { prefer: 'wait=30' },
    body: { tenant_id: tenantId, name: 'W', slug: unique('w'), bucket: null, environment: 'development' },
  })
  const source = { tenantId, workspaceId: from.id as string, operator: as }
  const archive = await exportArchive(source)
  const imported = async (named: { environment?: string }) => {
    const { body: job } = await sendArchive(source, archive, named)
    expect((await endOf(source, job.id)).state).toBe('succeeded')
    return environmentOf(await call('GET', `/v1/workspaces/${job.target}`, { as }))
  }
  expect(await imported({})).toBe('development')
  expect(await imported({ environment: 'production' })).toBe('production')
})
