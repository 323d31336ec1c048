/** Quotas are read and set while the tables that they count are renamed and dropped with declarations. */

import { expect, inject, test } from 'vitest'
import { limit } from '../../support/fixtures/quotas.ts'
import {
  call,
  connectSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { waitersOf } from '../../support/servers/table-barrier.ts'

const REVISED = { type: 'object', properties: { n: { type: 'integer' } } }

const CHANGES = {
  'PUT /v1/schemas/{id}': ['PUT', { schema: REVISED }],
  'DELETE /v1/schemas/{id}': ['DELETE', undefined],
} as const

const QUOTAS: Readonly<Record<string, (of: TestWorkspace) => ReturnType<typeof call>>> = {
  'GET /v1/quotas': ({ workspaceId, operator: as }) =>
    call('GET', `/v1/quotas?workspace_id=${workspaceId}`, { as }),
  'PUT documents': (of) => limit(of, { documents: 10 }),
  'PUT document_bytes': (of) => limit(of, { document_bytes: 10_000 }),
}

const CASES = Object.entries(CHANGES).flatMap(([change, [method, body]]) =>
  Object.entries(QUOTAS).map(([name, ask]) => ({ change, method, body, name, ask })),
)

test.each(CASES)(
  '$name behind $change that waits for a reader: both are answered with 200',
  async ({ method, body, ask }) => {
    const workspace = await createTestWorkspace()
    const { workspaceId: workspace_id, operator: as } = workspace
    const declaration = { workspace_id, collection: 'declared', store: 'relational', schema: {} }
    const { id } = (await call('POST', '/v1/schemas', { as, body: declaration })).body
    const reader = await connectSuperuser(inject('tenon'))
    try {
      const { rows } = await reader.query<{ relation: string }>(
        'select relation from tenon.schemas where id = $1',
        [id],
      )
      const table = `tenon_data."${rows[0]?.relation}"`
      const waiting = (count: number) =>
        eventually(async () => (await waitersOf(reader, table)).length >= count || undefined)
      await reader.query(`begin; lock table ${table} in access share mode`)
      const changed = call(method, `/v1/schemas/${id}`, { as, ...(body && { body }) })
      await waiting(1)
      const answer = ask(workspace)
      await waiting(2)
      await reader.query('commit')
      const replies = await Promise.all([changed, answer])
      expect(replies.map(({ status, body: answer }) => `${status} ${answer.code ?? ''}`)).toEqual([
        '200 ',
        '200 ',
      ])
    } finally {
      await reader.end()
    }
  },
)

test.each(Object.entries(QUOTAS))(
  '%s that waits for one table while another one is dropped: answered with 200',
  async (_, ask) => {
    const workspace = await createTestWorkspace()
    const { workspaceId: workspace_id, operator: as } = workspace
    const locking = await connectSuperuser(inject('tenon'))
    try {
      const ids: string[] = []
      for (const collection of ['first', 'second']) {
        const declaration = { workspace_id, collection, store: 'relational', schema: {} }
        ids.push((await call('POST', '/v1/schemas', { as, body: declaration })).body.id)
      }
      const { rows } = await locking.query<{ table: string }>(
        `select format('tenon_data.%I', relation) as table from tenon.schemas where id = $1`,
        [ids[0]],
      )
      const table = rows[0]?.table ?? ''
      await locking.query(`begin; lock table ${table} in access exclusive mode`)
      const answer = ask(workspace)
      // By now, it has read which tables there are.
      await eventually(async () => (await waitersOf(locking, table)).length > 0 || undefined)
      expect((await call('DELETE', `/v1/schemas/${ids[1]}`, { as })).status).toBe(200)
      await locking.query('commit')
      const { status, body } = await answer
      expect([status, body.code]).toEqual([200, undefined])
    } finally {
      await locking.end()
    }
  },
)
