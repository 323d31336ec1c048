/** Functions that their configuration opens to users. */

import { beforeAll, expect, test } from 'vitest'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let mia: Caller
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mia = await userToken(workspace, 'mia')
})

async function deploy(source: string, config: object = {}, to = workspace): Promise<string> {
  const body = { workspace_id: to.workspaceId, name: unique('f'), source, config }
  const made = await call('POST', '/v1/functions', { as: to.operator, body })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}

const invoke = (as: Caller, id: string): Promise<Reply> =>
  call('POST', `/v1/functions/${id}/invoke`, { as, body: { n: 2 } })

const DOUBLE = 'export default ({ n }: { n: number }) => 2 * n'

test('function – that nobody has opened, or only to anon keys – is not found by a user', async () => {
  const missing = await invoke(mia, 'fn_00000000000000000000000000')
  for (const config of [{}, { user: false }, { anon: true }]) {
    const reply = await invoke(mia, await deploy(DOUBLE, config))
    expect([reply.status, reply.body.code, reply.body.detail]).toEqual([
      404,
      'not_found',
      missing.body.detail,
    ])
  }
})

test('function – opened to users – is invoked by users of its workspace, and not by anon keys', async () => {
  const id = await deploy(DOUBLE, { user: true })
  const reply = await invoke(mia, id)
  expect([reply.status, reply.body]).toEqual([200, 4])
  expect((await invoke(workspace.anon, id)).status).toBe(404)
  const stranger = await userToken(await createTestWorkspace(), 'mia')
  expect((await invoke(stranger, id)).status).toBe(404)
  const { body } = await call('PUT', `/v1/functions/${id}/config`, {
    as: workspace.operator,
    body: { user: false },
  })
  expect(body.config).toMatchObject({ user: false, anon: false })
  expect((await invoke(mia, id)).status).toBe(404)
})

test('function – that fails – shows a user no output and no place in its source', async () => {
  const source = 'export default () => { console.log("secret"); throw new Error("no") }'
  const reply = await invoke(mia, await deploy(source, { user: true }))
  expect([reply.status, reply.body.code, reply.body.detail]).toEqual([502, 'function_error', 'no'])
  expect(JSON.stringify(reply.body)).not.toContain('secret')
  expect(reply.body.run_id).toBe(reply.headers.get('x-run-id'))
})

test('quota of invocations – counts those of users', async () => {
  const other = await createTestWorkspace()
  const id = await deploy(DOUBLE, { user: true }, other)
  await limit(other, { invocations_per_day: 1 })
  const as = await userToken(other, 'mia')
  expect((await invoke(as, id)).status).toBe(200)
  const refused = await invoke(as, id)
  expect([refused.status, refused.body.code]).toEqual([429, 'quota_exceeded'])
  expect(refused.body).not.toHaveProperty('used')
})

test('definitions of functions – are closed to users, in the database as well', async () => {
  const id = await deploy(DOUBLE, { user: true })
  expect((await call('GET', `/v1/functions/${id}`, { as: mia })).status).toBe(403)
  const ref = [workspace.tenantId, workspace.workspaceId]
  for (const text of ['select source from tenon.function_versions', 'select created_by from tenon.functions'])
    await expect(sqlAsRole('tenon_user', ref, text)).rejects.toThrow(/permission denied/)
  const open = await sqlAsRole<{ id: string }>('tenon_user', ref, 'select id from tenon.functions')
  expect(open.map((row) => row.id)).toContain(id)
  const closed = await deploy(DOUBLE)
  expect(open.map((row) => row.id)).not.toContain(closed)
})
