/** Aliases of flows: names for versions, weighted shares, and versions that cannot be changed. */

import { beforeAll, describe, expect, test } from 'vitest'
import { SOURCE } from '../../isolation/sweep-rows-flows.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let flow: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  flow = await publishFlow(3)
})

/** Publishes a flow with that many versions. @returns its id */
async function publishFlow(versions: number, of = workspace): Promise<string> {
  const body = { source: SOURCE(unique('f')) }
  const made = await call('POST', `${of.flows}/definitions`, { as: of.operator, body })
  for (let n = 0; n < versions; n++)
    await call('POST', `${of.flows}/definitions/${made.body.id}/versions`, { as: of.operator, body: {} })
  return made.body.id
}

const sendAlias = (method: string, name: string, body?: unknown, id = flow, of = workspace) =>
  call(method, `${of.flows}/definitions/${id}/aliases${name}`, { as: of.operator, body })
const start = (body: object, headers = {}) =>
  call('POST', `${workspace.flows}/definitions/${flow}/executions`, { as: workspace.operator, body, headers })

describe('flow alias', () => {
  test('set, read, listed, moved, deleted: executions keep the version chosen at their start', async () => {
    const set = await sendAlias('PUT', '/live', { version: 2 })
    expect([set.status, set.body]).toMatchObject([
      200,
      { flow_id: flow, name: 'live', versions: [{ version: 2, weight: 1 }] },
    ])
    expect((await sendAlias('GET', '/live')).body).toEqual(set.body)
    const first = await start({ alias: 'live' }, { prefer: 'wait=20' })
    expect(first.body).toMatchObject({ status: 'completed', version: 2 })
    await sendAlias('PUT', '/live', { version: 1 })
    expect((await start({ alias: 'live' })).body.version).toBe(1)
    expect((await start({})).body.version).toBe(3)
    const read = await call('GET', `${workspace.flows}/executions/${first.body.id}`, {
      as: workspace.operator,
    })
    expect(read.body.version).toBe(2)
    await sendAlias('PUT', '/canary', { version: 3 })
    const page = (await sendAlias('GET', '?page[size]=1')).body
    expect(page.data.map(({ name }: { name: string }) => name)).toEqual(['canary'])
    const rest = (await sendAlias('GET', `?page[after]=${page.page.next}`)).body
    expect(rest.data.map(({ name }: { name: string }) => name)).toEqual(['live'])
    expect((await sendAlias('DELETE', '/live')).body).toEqual({ name: 'live', deleted: true })
    expect((await start({ alias: 'live' })).body.detail).toContain('alias')
  })

  test('two weighted versions: executions are divided by weight, a repeated idempotent start gets the same version', async () => {
    const versions = [
      { version: 1, weight: 9 },
      { version: 3, weight: 1 },
    ]
    await sendAlias('PUT', '/shared', { versions })
    const share = async (n: number) =>
      asSuperuser<{ version: number; n: number }>(
        `select tenon.alias_version($1, share) as version, count(*)::int as n
          from (select ('x' || left(encode(sha256(i::text::bytea), 'hex'), 12))::bit(48)::bigint as share
            from generate_series(1, $2::int) i) s group by 1 order by 1`,
        [JSON.stringify(versions), n],
      )
    const [frequent, rare] = await share(10_000)
    expect([frequent?.version, rare?.version]).toEqual([1, 3])
    expect(Math.abs((rare?.n ?? 0) - 1_000)).toBeLessThan(150)
    const chosen = await Promise.all(Array.from({ length: 60 }, () => start({ alias: 'shared' })))
    const counts = chosen.map(({ body }) => body.version)
    expect(new Set([...counts, 1, 3])).toEqual(new Set([1, 3]))
    expect(counts.filter((version) => version === 1).length).toBeGreaterThan(40)
    const key = { 'idempotency-key': unique('k') }
    const [one, again] = [await start({ alias: 'shared' }, key), await start({ alias: 'shared' }, key)]
    expect([again.body.id, again.body.version]).toEqual([one.body.id, one.body.version])
  })

  test.each([
    [{}],
    [{ version: 1, versions: [{ version: 1, weight: 1 }] }],
    [{ versions: [] }],
    [{ versions: [{ version: 1, weight: 0 }] }],
    [{ versions: [{ version: 1, weight: 1.5 }] }],
    [
      {
        versions: [
          { version: 1, weight: 1 },
          { version: 1, weight: 2 },
        ],
      },
    ],
    [{ versions: [{ version: 1, weight: 1, note: 'x' }] }],
    [{ version: 0 }],
  ])('body %j: refused with validation_failed', async (body) => {
    const reply = await sendAlias('PUT', '/bad', body)
    expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed'])
  })

  test('unknown version, other flow or other workspace: not found', async () => {
    expect((await sendAlias('PUT', '/none', { version: 4 })).body.code).toBe('not_found')
    const sibling = await addTestWorkspace(workspace)
    const theirs = await publishFlow(1, sibling)
    expect((await sendAlias('PUT', '/x', { version: 1 }, flow, sibling)).status).toBe(404)
    await sendAlias('PUT', '/theirs', { version: 1 }, theirs, sibling)
    expect((await sendAlias('GET', '/theirs')).status).toBe(404)
    expect((await start({ alias: 'theirs' })).status).toBe(404)
    expect((await start({ alias: 'shared', version: 1 })).body.code).toBe('validation_failed')
    expect((await sendAlias('PUT', '/Bad_Name', { version: 1 })).body.code).toBe('validation_failed')
  })
})

describe('flow version', () => {
  const ROLES = ['tenon_admin', 'tenon_service', 'tenon_anon', 'tenon_operator']

  test.each(ROLES)('update, delete or truncate as database role %s: permission denied', async (role) => {
    const ref = [workspace.tenantId, workspace.workspaceId]
    for (const statement of [
      `update tenon.flow_versions set ir = '{}' where flow_id = '${flow}'`,
      `delete from tenon.flow_versions where flow_id = '${flow}'`,
      'truncate tenon.flow_versions',
      `insert into tenon.flow_versions as v select * from tenon.flow_versions where flow_id = '${flow}'
        on conflict (tenant_id, workspace_id, flow_id, version) do update set ir = '{}'`,
    ])
      await expect(sqlAsRole(role, ref, statement)).rejects.toThrow(/permission denied/)
  })

  test('flow deleted: its versions and aliases are deleted with it, and only then', async () => {
    const id = await publishFlow(2)
    await sendAlias('PUT', '/live', { version: 1 }, id)
    const ref = [workspace.tenantId, workspace.workspaceId]
    const deleteAndCount = `delete from tenon.flows where id = '${id}';
      select (select count(*)::int from tenon.flow_versions where flow_id = '${id}') as versions,
        (select count(*)::int from tenon.flow_aliases where flow_id = '${id}') as aliases`
    expect(await sqlAsRole('tenon_admin', ref, deleteAndCount)).toEqual([{ versions: 0, aliases: 0 }])
    const deletion = await call('DELETE', `${workspace.flows}/definitions/${id}`, { as: workspace.operator })
    expect([deletion.status, deletion.body]).toEqual([200, { id, deleted: true }])
    const rows =
      'select from tenon.flow_versions where flow_id = $1 union all select from tenon.flow_aliases where flow_id = $1'
    expect(await asSuperuser(rows, [id])).toEqual([])
  })
})
