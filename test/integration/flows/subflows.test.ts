// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Subflows on Temporal: output, faults, cancellation, isolation of workspaces. */

import { beforeAll, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

async function publish(
  name: string,
  tasks: string,
  { version = '1.0.0', at = workspace } = {},
): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '${version}' }\ndo:\n${tasks}`
  const headers = { 'content-type': 'application/yaml' }
  const drafted = await call('GET', `${at.flows}/definitions/${name}`, { as: at.operator })
  const [method, path] = drafted.status === 200 ? ['PUT', `/definitions/${name}`] : ['POST', '/definitions']
  const made = await call(method as 'PUT' | 'POST', `${at.flows}${path}`, {
    as: at.operator,
    body: source,
    headers,
  })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${at.flows}/definitions/${name}/versions`, { as: at.operator, body: {} })
}

async function runFlow(name: string, input: object = {}, wait = 20) {
  const headers = { prefer: `wait=${wait}` }
  const { body } = await call('POST', `${workspace.flows}/definitions/${name}/executions`, {
    as: workspace.operator,
    body: { input },
    headers,
  })
  return body
}

const executions = async (flow: string) =>
  (await call('GET', `${workspace.flows}/definitions/${flow}/executions`, { as: workspace.operator })).body
    .data

const run = (name: string, more = '') =>
  `run: { workflow: { namespace: n, name: ${name}, input: { n: '\${ .n }' } }${more} }`

test("subflow with or without a version: the task's output is its output", async () => {
  const child = unique('child')
  await publish(child, "  - a: { set: { doubled: '${ .n + .n }' } }")
  await publish(child, "  - a: { set: { tripled: '${ .n + .n + .n }' } }", { version: '2.0.0' })
  const old = `run: { workflow: { namespace: n, name: ${child}, version: '1.0.0', input: { n: 1 } } }`
  const parent = unique('parent')
  await publish(parent, `  - both: { fork: { branches: [{ new: { ${run(child)} } }, { old: { ${old} } }] } }`)
  expect(await runFlow(parent, { n: 4 })).toMatchObject({
    status: 'completed',
    output: [{ tripled: 12 }, { doubled: 2 }],
  })
  const [first, second] = await executions(child)
  expect([first.version, second.version].toSorted()).toEqual([1, 2])
  expect(first.workflow_id.split(':').slice(0, 2)).toEqual([workspace.tenantId, workspace.workspaceId])
})

test("subflow faults: caught as the task's error; unknown or in another workspace: 404", async () => {
  const [child, parent, foreignFlow] = [unique('child'), unique('parent'), unique('other')]
  await publish(
    child,
    '  - a: { raise: { error: { type: https://x.example/e, status: 418, detail: \'${ "\\(.n)" }\' } } }',
  )
  await publish(
    parent,
    `  - a: { try: [{ b: { ${run(child)} } }], catch: { errors: { with: { status: 418 } }, do: [{ c: { set: { caught: '\${ $error }' } } }] } }`,
  )
  expect(await runFlow(parent, { n: 9 })).toMatchObject({
    output: { caught: { status: 418, detail: '9', instance: '/do/0/a/try/0/b' } },
  })
  await publish(foreignFlow, '  - a: { set: { leaked: true } }', { at: await createTestWorkspace() })
  const caller = unique('caller')
  await publish(caller, `  - a: { ${run(foreignFlow)} }`)
  expect(await runFlow(caller)).toMatchObject({
    status: 'faulted',
    error: { status: 404, instance: '/do/0/a' },
  })
})

test('subflow with await set to false: continues on its own', async () => {
  const [child, parent] = [unique('child'), unique('parent')]
  await publish(child, '  - nap: { wait: PT1S }\n  - a: { set: { done: true } }')
  await publish(parent, `  - a: { ${run(child, ', await: false')} }\n  - b: { set: { passed: '\${ . }' } }`)
  expect(await runFlow(parent, { n: 1 })).toMatchObject({ status: 'completed', output: { passed: { n: 1 } } })
  await eventually(async () => ((await executions(child))[0]?.status === 'completed' ? true : undefined))
})

test('parent cancelled: cancels the subflow it waits for', async () => {
  const [child, parent] = [unique('child'), unique('parent')]
  await publish(child, '  - nap: { wait: P1D }')
  await publish(parent, `  - a: { ${run(child)} }`)
  const { id } = await runFlow(parent, {}, 0)
  await eventually(async () => ((await executions(child))[0]?.status === 'waiting' ? true : undefined))
  await call('POST', `${workspace.flows}/executions/${id}/cancel`, { as: workspace.operator, body: {} })
  await eventually(async () => ((await executions(child))[0]?.status === 'cancelled' ? true : undefined))
  await eventually(async () => ((await executions(parent))[0]?.status === 'cancelled' ? true : undefined))
})

const caught = 'catch: { do: [ { late: { set: { late: true } } } ] }'
test.each([
  ['timeout', (sub: string) => `try: [ { sub: { ${sub}, timeout: { after: PT1S } } } ], ${caught}`],
  [
    'lost race',
    (sub: string) =>
      `fork: { compete: true, branches: [ { sub: { ${sub} } }, { rest: { wait: { milliseconds: 500 } } } ] }`,
  ],
])('%s ends the task: the subflow is cancelled, the parent continues', async (_what, around) => {
  const [child, parent] = [unique('child'), unique('parent')]
  await publish(child, '  - heard: { listen: { to: { one: { with: { type: go } } } } }')
  // The parent continues: its own end cannot be what cancels the subflow.
  await publish(parent, `  - risk: { ${around(run(child))} }\n  - rest: { wait: PT1H }`)
  await runFlow(parent, { n: 1 }, 0)
  await eventually(async () => ((await executions(child))[0]?.status === 'cancelled' ? true : undefined))
  const [{ id, status }] = await executions(parent)
  expect(status).toBe('waiting')
  await call('POST', `${workspace.flows}/executions/${id}/cancel`, { as: workspace.operator, body: {} })
})

test('flow that runs itself: faults eight levels deep', async () => {
  const self = unique('self')
  await publish(self, `  - again: { ${run(self)} }`)
  expect(await runFlow(self)).toMatchObject({
    status: 'faulted',
    error: { status: 400, detail: expect.stringContaining('at most 8 deep') },
  })
  expect(await executions(self)).toHaveLength(9)
})

test('race lost before the subflow has started, while it starts, and after: it ends cancelled each time', async () => {
  const [child, parent] = [unique('child'), unique('parent')]
  await publish(child, '  - nap: { wait: P30D }')
  const quick = "quick: { wait: '${ { milliseconds: .ms } }' }"
  await publish(
    parent,
    `  - race: { fork: { compete: true, branches: [{ ${quick} }, { sub: { ${run(child)} } }] } }`,
  )
  const delays = Array.from({ length: 16 }, (_, n) => 1 + 20 * n)
  await Promise.all(delays.map((ms) => runFlow(parent, { ms })))
  const ended = await eventually(async () => {
    const all: { status: string; ended_at: string | null }[] = await executions(child)
    return all.every(({ ended_at }) => ended_at !== null) ? all : undefined
  })
  // One whose row was not written yet never was.
  expect(new Set(ended.map(({ status }) => status))).toEqual(new Set(['cancelled']))
  expect(ended.length).toBeGreaterThan(0)
})
