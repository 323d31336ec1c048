/** Worker crashes while a tenant is suspended and resumed: executions stop, and later continue once. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let call: OwnPlatform['call']
beforeAll(async () => {
  own = await sharedPlatform()
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())

const SOURCE = `document: { dsl: '1.0.3', namespace: test, name: busy, version: '1.0.0' }
do:
  - keep:
      for: { each: n, in: .all }
      do:
        - put: { call: collection.create, with: { name: '\${ "kept-" + $workflow.input.name }', document: { n: '\${ $n }' } } }
        - rest: { wait: { milliseconds: 200 } }
`

const sendTenantCommand = (verb: 'suspend' | 'resume') =>
  call('POST', `/v1/tenants/${workspace.tenantId}/${verb}`, { as: workspace.operator })

test('worker killed during suspend and during resume: each of ten executions has each effect once', async () => {
  const as = workspace.operator
  await call('POST', `${workspace.flows}/definitions`, { as, body: { source: SOURCE } })
  await call('POST', `${workspace.flows}/definitions/busy/versions`, { as, body: {} })
  const all = Array.from({ length: 20 }, (_, n) => n)
  const executions = await Promise.all(
    all.slice(0, 10).map(async (n) => {
      const body = { input: { all, name: `run${n}` } }
      return (await call('POST', `${workspace.flows}/definitions/busy/executions`, { as, body })).body
        .id as string
    }),
  )
  const statuses = () =>
    Promise.all(
      executions.map(
        async (id) => (await call('GET', `${workspace.flows}/executions/${id}`, { as })).body.status,
      ),
    )
  const untilAllAre = (status: string, ms: number) =>
    eventually(async () => ((await statuses()).every((each) => each === status) ? true : undefined), ms)
  await untilAllAre('waiting', 30_000)
  const suspending = sendTenantCommand('suspend')
  killServer(started, 'worker')
  expect((await suspending).status).toBe(200)
  await untilAllAre('suspended', 60_000)
  const resuming = sendTenantCommand('resume')
  killServer(started, 'worker')
  expect((await resuming).status).toBe(200)
  await untilAllAre('completed', 120_000)
  for (const n of all.slice(0, 10)) {
    const path = `/v1/collections/kept-run${n}/documents?page[size]=200`
    const { body } = await call('GET', path, { as: workspace.service })
    expect(body.data.map((each: { n: number }) => each.n)).toEqual(all)
  }
})
