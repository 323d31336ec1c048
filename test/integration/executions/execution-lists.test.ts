/** Lists of executions: filters, stable pages, and hostile input that stays a value. */

import { beforeAll, describe, expect, test } from 'vitest'
import { ERRORS } from '../../../flows-dsl/errors.ts'
import { randomIds, typeId } from '../../../src/core/ids.ts'
import { SOURCE } from '../../isolation/sweep-rows-flows.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const newId = () => typeId('run', randomIds.uuid())

/** A type of a flow's own, of which only the beginning is indexed. */
const LONG_TYPE = `https://example.test/${'x'.repeat(5_000)}`

/** The n-th execution started n minutes after twelve. */
const RUNS = [
  { id: newId(), flow: 'a', version: 1, status: 'completed', ended: true },
  {
    id: newId(),
    flow: 'a',
    version: 2,
    status: 'faulted',
    ended: true,
    key: 'order-7',
    error: { type: ERRORS.communication.type },
  },
  { id: newId(), flow: 'b', version: 1, status: 'running', kind: 'schedule', by: 'sched_1' },
  {
    id: newId(),
    flow: 'b',
    version: 1,
    status: 'waiting',
    held: true,
    kind: 'webhook',
    by: 'hook_1',
  },
  { id: newId(), flow: 'b', version: 1, status: 'waiting', key: "o'rder" },
  {
    id: newId(),
    flow: 'a',
    version: 1,
    status: 'cancelled',
    ended: true,
    kind: 'schedule',
    error: { type: LONG_TYPE },
  },
  { id: newId(), flow: 'a', version: 2, status: 'running', paused: true },
]

let workspace: TestWorkspace
let sibling: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  sibling = await addTestWorkspace(workspace)
  for (const name of ['a', 'b']) {
    const body = { name, source: SOURCE(name) }
    await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body })
    for (let n = 0; n < 2; n++)
      await call('POST', `${workspace.flows}/definitions/${name}/versions`, {
        as: workspace.operator,
        body: {},
      })
  }
  await asSuperuser(
    `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input, output,
      started_by, started_at, ended_at, suspended, paused, trigger_kind, trigger_id, correlation_key, error)
    select $1, $2, r.id, $1 || ':' || $2 || ':x:' || n, (select f.id from tenon.flows f
        where f.tenant_id = $1 and f.workspace_id = $2 and f.name = r.flow), r.version, r.status,
      '{"large": true}', '{"large": true}', 'me', timestamptz '2026-01-01 12:00Z' + n * interval '1 minute',
      case when r.ended then timestamptz '2026-01-02Z' end, coalesce(r.held, false), coalesce(r.paused, false),
      coalesce(r.kind, 'manual'), r.by, r.key, r.error
    from rows from (jsonb_to_recordset($3::jsonb) as (id text, flow text, version int, status text, ended boolean,
      held boolean, paused boolean, kind text, by text, key text, error jsonb)) with ordinality
      as r (id, flow, version, status, ended, held, paused, kind, by, key, error, n)`,
    [workspace.tenantId, workspace.workspaceId, JSON.stringify(RUNS)],
  )
})

const list = (query: string, path = 'executions', of = workspace) =>
  call('GET', `${of.flows}/${path}${query}`, { as: of.operator })

/** The numbers of the executions found, in the order of the response. */
async function findNumbers(query: string, path = 'executions'): Promise<number[]> {
  const { status, body } = await list(query, path)
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data.map(({ id }: { id: string }) => RUNS.findIndex((run) => run.id === id) + 1)
}

describe('execution list: filter', () => {
  test.each([
    ['', [7, 6, 5, 4, 3, 2, 1]],
    ['?order=asc', [1, 2, 3, 4, 5, 6, 7]],
    ['?status=completed', [1]],
    ['?status=faulted', [2]],
    ['?status=cancelled', [6]],
    ['?status=running', [3]],
    ['?status=waiting', [5]],
    ['?status=suspended', [7, 4]],
    ['?status=pending', []],
    ['?error_type=communication', [2]],
    [`?error_type=${ERRORS.communication.type}&status=faulted,cancelled`, [2]],
    ['?error_type=timeout', []],
    [`?error_type=${LONG_TYPE.slice(0, 200)}`, [6]],
    ['?flow=a', [7, 6, 2, 1]],
    ['?flow=a&version=2', [7, 2]],
    ['?flow=nothing', []],
    ['?trigger=schedule', [6, 3]],
    ['?trigger=manual', [7, 5, 2, 1]],
    ['?trigger_id=hook_1', [4]],
    ['?trigger=schedule&trigger_id=hook_1', []],
    ['?correlation_key=order-7', [2]],
    ["?correlation_key=o'rder", [5]],
    ['?started_after=2026-01-01T12:03:00Z', [7, 6, 5, 4, 3]],
    ['?started_before=2026-01-01T13:03:00%2B01:00&order=asc', [1, 2]],
    ['?started_after=2026-01-01T12:02:00Z&started_before=2026-01-01T12:05:00Z&flow=b', [4, 3]],
  ])('%s: finds the matching executions in order', async (query, expected) => {
    expect(await findNumbers(query)).toEqual(expected)
  })

  test('several statuses, each set of them: finds what each of them finds, in order, each once', async () => {
    const statuses = ['pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed']
    const alone = await Promise.all(statuses.map((status) => findNumbers(`?status=${status}`)))
    for (let set = 1; set < 2 ** statuses.length; set += 1) {
      const chosen = [...statuses.keys()].filter((n) => set & (1 << n))
      const query = `?status=${chosen.map((n) => statuses[n]).join()}`
      const expected = chosen.flatMap((n) => alone[n] ?? []).sort((a, b) => b - a)
      expect(await findNumbers(query), query).toEqual(expected)
    }
    expect(await findNumbers('?status=faulted,faulted')).toEqual([2])
  })

  test("list under one flow by its name: finds that flow's executions, 404 for an unknown flow", async () => {
    expect(await findNumbers('?status=waiting', 'definitions/b/executions')).toEqual([5])
    expect((await list('', 'definitions/nothing/executions')).status).toBe(404)
  })

  test('list: omits input and output, which the execution itself shows', async () => {
    const [run] = (await list('?status=completed')).body.data
    expect(run).not.toHaveProperty('input')
    expect(run).not.toHaveProperty('output')
    expect((await list('', `executions/${run.id}`)).body).toMatchObject({ ...run, input: { large: true } })
  })

  test('list in another workspace of the tenant: empty', async () => {
    expect((await list('', 'executions', sibling)).body.data).toEqual([])
  })
})

describe('execution list: pages', () => {
  test.each(['asc', 'desc'])(
    'order %s, rows change between pages: each execution is on exactly one page',
    async (order) => {
      const numbers: number[] = []
      let after: string | null = ''
      for (let page = 0; after !== null && page < 10; page++) {
        const cursor: string = after === '' ? '' : `&page[after]=${after}`
        const query = `?page[size]=2&order=${order}${cursor}`
        numbers.push(...(await findNumbers(query)))
        after = (await list(query)).body.page.next
        // The row behind the cursor may change before the next page.
        await asSuperuser('update tenon.executions set correlation_key = $2 where id = $1', [
          RUNS[0]?.id,
          `k${page}`,
        ])
      }
      const all = [1, 2, 3, 4, 5, 6, 7]
      expect(numbers).toEqual(order === 'asc' ? all : all.toReversed())
    },
  )

  test.each(['c1_eA', 'c1_', 'x', `c1_${Buffer.from("1-run_' or true--").toString('base64url')}`])(
    'cursor %s is malformed: refused with cursor_invalid',
    async (cursor) => {
      const { status, body } = await list(`?page[after]=${cursor}`)
      expect([status, body.code]).toEqual([400, 'cursor_invalid'])
    },
  )
})

describe('execution list: bad input', () => {
  test('unknown filter: refused, hint names the nearest filter', async () => {
    const { status, body } = await list('?statsu=running')
    expect([status, body.code, body.hint]).toEqual([400, 'unknown_parameter', 'Did you mean status?'])
  })

  test.each([
    "status=X') OR (WorkspaceId!='",
    'status=done',
    'status=',
    'status=faulted,',
    'status=faulted,done',
    // One way: the other one would be a list of lists.
    'status=faulted&status=cancelled',
    'error_type=',
    'trigger=by-hand',
    'version=0',
    // Without a flow, it would be compared with each execution of the workspace.
    'version=1',
    'version=1 or 1=1',
    'started_after=yesterday',
    "started_before=2026-01-01T00:00:00Z' or '1'='1",
    'order=id',
    'correlation_key=',
  ])('query %s: refused with validation_failed', async (query) => {
    const { status, body } = await list(`?${query.replaceAll(' ', '%20')}`)
    expect([status, body.code]).toEqual([400, 'validation_failed'])
  })

  // When lists were queried from Temporal visibility, such a filter escaped the workspace.
  test.each(['flow', 'trigger_id', 'correlation_key', 'error_type'])(
    'filter %s with injected SQL or query text: compared as a plain value, finds nothing',
    async (name) => {
      for (const value of [
        `X') OR (X`,
        `x' or '1'='1`,
        `x" OR WorkspaceId = "y`,
        `x'; drop table tenon.flows; --`,
      ])
        expect(await findNumbers(`?${name}=${encodeURIComponent(value)}`)).toEqual([])
      expect(await findNumbers('?flow=b&order=asc')).toEqual([3, 4, 5])
    },
  )
})
