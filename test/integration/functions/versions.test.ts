/** Versions and aliases of functions: which one a call runs, who may name one, and which are kept. */

import { Client } from 'pg'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { ok, publishMcpServer } from '../../support/clients/mcp.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const admin = (method: string, path: string, body?: unknown) =>
  call(method, `/v1/functions${path}`, { as: workspace.operator, ...(body !== undefined && { body }) })

const deploy = (name: string, value: number, config?: object) =>
  ok(
    admin('POST', '', {
      workspace_id: workspace.workspaceId,
      name,
      source: `export const input = { type: 'object', properties: { v${value}: {} } }\nexport default () => ${value}`,
      ...(config && { config }),
    }),
  )

const invoke = async (target: string, as = workspace.service) => {
  const { status, body } = await call('POST', `/v1/functions/${target}`, { as, body: {} })
  return status === 200 ? body : [status, body.code, body.detail]
}

/** A request meets a lock of the given statements, which are committed once it waits. */
async function during<T>(
  statements: readonly string[],
  id: string,
  request: () => Promise<T>,
  whenWaiting = async () => {},
): Promise<T> {
  const other = new Client({ connectionString: inject('tenon').databaseUrl })
  await other.connect()
  try {
    await other.query('begin')
    for (const statement of statements) await other.query(statement, [id])
    const { rows } = await other.query('select pg_backend_pid() as pid')
    const reply = request()
    await eventually(async () => {
      const waiting = await asSuperuser(
        'select from pg_stat_activity where $1::integer = any(pg_blocking_pids(pid))',
        [rows[0].pid],
      )
      return waiting.length > 0 ? true : undefined
    })
    await whenWaiting()
    await other.query('commit')
    return await reply
  } finally {
    await other.end()
  }
}

describe('versions', () => {
  test('listed newest first, read with their schemas, activated and rolled back', async () => {
    const { id } = await deploy('counted', 1)
    for (const value of [2, 3]) await deploy('counted', value)
    const first = await ok(admin('GET', `/${id}/versions?page[size]=2`))
    expect(first.data).toMatchObject([
      { version: 3, active: true, size: expect.any(Number) },
      { version: 2, active: false },
    ])
    const next = await ok(admin('GET', `/${id}/versions?page[size]=2&page[after]=${first.page.next}`))
    expect(next.data).toMatchObject([{ version: 1, created_by: expect.any(String) }])
    const read = await ok(admin('GET', `/${id}/versions/2`))
    expect(read).toMatchObject({ version: 2, input_schema: { properties: { v2: {} } } })
    expect(read.source).toContain('=> 2')
    expect(await ok(admin('POST', `/${id}/versions/1/activate`, {}))).toMatchObject({ id, version: 1 })
    expect(await invoke('counted/invoke')).toBe(1)
    expect(await invoke('counted/invoke?version=2')).toBe(2)
    expect(await deploy('counted', 4)).toMatchObject({ version: 4 })
    expect(await invoke('counted/invoke')).toBe(4)
    expect((await admin('POST', `/${id}/versions/9/activate`, {})).status).toBe(404)
    expect(await invoke('counted/invoke?version=9')).toEqual([
      404,
      'not_found',
      'There is no such function version.',
    ])
    expect(await invoke('counted/invoke?version=1&alias=x')).toEqual([
      400,
      'validation_failed',
      expect.any(String),
    ])
  })

  test('dropped while it is activated, or an alias is set to it: not found, and calls go on', async () => {
    const { id } = await deploy('dropped', 1)
    for (const value of [2, 3]) await deploy('dropped', value)
    // As a deployment does it, which holds the row of the function until it has dropped old versions.
    const drop = (version: number) => [
      'update tenon.functions set updated_at = now() where id = $1',
      `delete from tenon.function_versions where function_id = $1 and version = ${version}`,
    ]
    const activated = await during(drop(1), id, () => admin('POST', `/${id}/versions/1/activate`, {}))
    expect(activated.status).toBe(404)
    const set = await during(drop(2), id, () => admin('PUT', `/${id}/aliases/old`, { version: 2 }))
    expect(set.status).toBe(404)
    expect(await invoke('dropped/invoke')).toBe(3)
  })

  test('beyond a hundred: the oldest are dropped, except those that something calls', async () => {
    const { id } = await deploy('many', 1)
    // The server of the workspace pins version 1.
    await publishMcpServer(workspace, 'pins', { call_many: { enabled: true } })
    await asSuperuser(
      `insert into tenon.function_versions (tenant_id, workspace_id, function_id, version, source, compiled, sha256, bytes, exports, created_by)
       select tenant_id, workspace_id, function_id, n, source, compiled, sha256, bytes, exports, created_by
       from tenon.function_versions, generate_series(2, 1000) n where function_id = $1`,
      [id],
    )
    await asSuperuser('update tenon.functions set latest_version = 1000 where id = $1', [id])
    await asSuperuser(
      `insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async)
       select tenant_id, workspace_id, $2, id, 20, '{"kind":"api"}', 'x', true from tenon.functions where id = $1`,
      [id, typeId('run', randomIds.uuid())],
    )
    await ok(
      admin('PUT', `/${id}/aliases/old`, {
        versions: [
          { version: 10, weight: 3 },
          { version: 11, weight: 1 },
        ],
      }),
    )
    await deploy('many', 2)
    const kept = await asSuperuser<{ version: number }>(
      'select version from tenon.function_versions where function_id = $1 order by version',
      [id],
    )
    const numbers = kept.map(({ version }) => version)
    expect(numbers.slice(0, 5)).toEqual([1, 10, 11, 20, 902])
    expect(numbers).toHaveLength(104)
    expect(await invoke('many/invoke?version=20')).toBe(1)
  })
})

test('version that is deployed during a run: neither the next attempt of this run nor those in the queue get it', async () => {
  const runs = new FunctionRuns(workspace)
  const first = `export default async (_input, { run }) => {
    if (run.attempt > 1) return 'old'
    await new Promise((done) => setTimeout(done, 1_000))
    throw new Error('once')
  }`
  const config = { concurrency: 1, idempotent: true, retries: 1 }
  const id = await runs.deploy('redeployed', first, config)
  const repeated = await runs.start(id)
  await runs.until(id, repeated, ({ status }) => status === 'running')
  const queued = await runs.start(id)
  await runs.deploy('redeployed', "export default () => 'new'")
  expect(await runs.read(id, repeated)).toMatchObject({ status: 'running', attempts: 1 })
  const later = await runs.start(id)
  const ended = await Promise.all([repeated, queued, later].map((run) => runs.ended(id, run)))
  expect(ended.map(({ version, attempts, result }) => [version, attempts, result])).toEqual([
    [1, 2, 'old'],
    [1, 2, 'old'],
    [2, 1, 'new'],
  ])
})

test('a function with many runs is deleted: they go in batches, each for itself', async () => {
  const { id } = await deploy('busy', 1)
  await asSuperuser(
    `insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, trigger, started_by, is_async,
       status, ended_at)
     select tenant_id, workspace_id, 'run_busy_' || lpad(n::text, 4, '0'), id, 1, '{"kind":"api"}', 'x', true, 'completed', now()
     from tenon.functions, generate_series(1, 450) n where id = $1`,
    [id],
  )
  const count = async () => {
    const [row] = await asSuperuser<{ n: number }>(
      'select count(*)::integer as n from tenon.function_runs where function_id = $1',
      [id],
    )
    return row?.n
  }
  const last = "select from tenon.function_runs where function_id = $1 and id = 'run_busy_0450' for update"
  let left: number | undefined
  const whenWaiting = async () => {
    left = await count()
  }
  const deleted = await during([last], id, () => admin('DELETE', `/${id}`), whenWaiting)
  expect([left, deleted.status, await count()]).toEqual([50, 200, 0])
})

describe('aliases', () => {
  test('select by weight, by the id of the run; `name@alias` and `?alias=` are the same', async () => {
    const { id } = await deploy('split', 1, { anon: true })
    await deploy('split', 2)
    await deploy('split', 3)
    const versions = [
      { version: 1, weight: 1 },
      { version: 2, weight: 1 },
    ]
    expect(await ok(admin('PUT', `/${id}/aliases/canary`, { versions }))).toMatchObject({
      name: 'canary',
      versions,
    })
    expect((await ok(admin('GET', `/${id}/aliases`))).data).toMatchObject([{ name: 'canary' }])
    const results = []
    for (let n = 0; n < 16; n++)
      results.push(await invoke(n % 2 === 0 ? 'split@canary/invoke' : 'split/invoke?alias=canary'))
    expect(new Set(results)).toEqual(new Set([1, 2]))
    // The public may follow an alias, and cannot choose a version that an admin has left.
    expect([1, 2]).toContain(await invoke('split@canary/invoke', workspace.anon))
    expect(await invoke('split/invoke?version=1', workspace.anon)).toEqual([
      403,
      'forbidden',
      expect.any(String),
    ])
    expect((await admin('PUT', `/${id}/aliases/canary`, { version: 9 })).status).toBe(404)
    await ok(admin('PUT', `/${id}/aliases/canary`, { version: 3 }))
    expect(await invoke('split@canary/invoke')).toBe(3)
    await ok(admin('DELETE', `/${id}/aliases/canary`))
    expect(await invoke('split@canary/invoke')).toEqual([
      404,
      'not_found',
      'There is no such function alias.',
    ])
  })

  test('called by a flow: a version and an alias are pinned, the name alone is the active version', async () => {
    await deploy('staged', 1)
    const { id } = await deploy('staged', 2)
    await ok(admin('PUT', `/${id}/aliases/stable`, { version: 1 }))
    const source = `document: { dsl: '1.0.3', namespace: test, name: staged, version: '1.0.0' }
do:
  - run:
      fork:
        branches:
          - alias: { call: function.invoke, with: { id: staged@stable, input: {} } }
          - version: { call: function.invoke, with: { id: staged, version: 1, input: {} } }
          - active: { call: function.invoke, with: { id: staged, input: {} } }`
    await ok(call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body: { source } }))
    await ok(
      call('POST', `${workspace.flows}/definitions/staged/versions`, { as: workspace.operator, body: {} }),
    )
    const run = await ok(
      call('POST', `${workspace.flows}/definitions/staged/executions`, {
        as: workspace.operator,
        body: { input: {} },
        headers: { prefer: 'wait=20' },
      }),
    )
    expect(run.output).toEqual([1, 1, 2])
  })
})
