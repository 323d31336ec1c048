// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Four eyes over time: what an account did while its maker could act as it stays the maker's, although another admin has confirmed the
 * account before an execution comes of it.
 */

import { beforeAll, expect, test } from 'vitest'
import { addAccount } from '../support/clients/browser.ts'
import { ok } from '../support/clients/mcp.ts'
import { Admins, type Person, post, tokenFor } from '../support/fixtures/admins.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { onlyScheduleOf, publishScheduled, scheduleId } from '../support/fixtures/schedules.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { withReadingClient } from '../support/stack/temporal.ts'

let workspace: TestWorkspace
let executions: Executions
let admins: Admins
let mallory: Person
let carol: Person
let bob: Person

const person = () =>
  admins.person(addAccount(workspace.operator, { role: 'tenant_admin', tenant_id: workspace.tenantId }))

beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  admins = new Admins(workspace)
  ;[mallory, carol, bob] = await Promise.all([person(), person(), person()])
})

const BOARD =
  "  - board: { approve: { approvers: ['role:workspace_admin', 'role:tenant_admin', 'role:service'] } }"
const as = (operator: Caller) => ({ ...workspace, operator })

/** The execution of the flow that waits for a decision. */
const waiting = (flow: string): Promise<string> =>
  eventually(async () => {
    const path = `${workspace.flows}/definitions/${flow}/executions`
    const { data } = await ok(call('GET', path, { as: workspace.operator }))
    return data.find(({ status }: { status: string }) => status === 'waiting')?.id
  })

async function deploy(by: Caller, source: string, config: object, name = unique('fn')): Promise<string> {
  const body = { workspace_id: workspace.workspaceId, name, source, config }
  return (await post(by, '/v1/functions', body)).id
}

/** A function that starts the flow. */
const starting = (flow: string) => `export default (_given, { tenon }) => tenon.flows.start('${flow}', {})`
const SCOPES = { scopes: ['flows:run'] }

/** What the account does before it is confirmed. @returns what happens afterwards, and yields an execution that waits */
type Way = (account: Caller) => Promise<() => Promise<string>>

const WAYS: Readonly<Record<string, Way>> = {
  'makes a key, which starts the execution': async (account) => {
    const { key: apikey } = await admins.newKey(account)
    const flow = await executions.publish(BOARD)
    return async () => (await post({ apikey }, `/v1/flows/${flow}/executions`)).id
  },
  'makes a client, which makes the key that starts the execution': async (account) => {
    const client = await admins.machine(account)
    const flow = await executions.publish(BOARD)
    return async () => {
      const { key: apikey } = await admins.newKey(await tokenFor(client))
      return (await post({ apikey }, `/v1/flows/${flow}/executions`)).id
    }
  },
  'starts an execution, which another admin reruns': async (account) => {
    const flow = await executions.publish(BOARD)
    const first = await executions.start(flow, {}, account)
    await ok(executions.send(first, 'cancel'))
    await executions.ended(first)
    return async () => {
      await post(bob.as, `${workspace.flows}/executions/${first}/rerun`)
      return waiting(flow)
    }
  },
  'starts an execution, whose event waits for another one': async (account) => {
    const [first, second] = [unique('first'), unique('second')]
    const more = `schedule: { on: { all: [{ with: { type: ${first} } }, { with: { type: ${second} } }] } }\n`
    const flow = await executions.publish(BOARD, { more })
    const tell = await executions.publish(
      `  - tell: { emit: { event: { with: { type: ${first}, data: {} } } } }`,
    )
    await executions.ended(await executions.start(tell, {}, account))
    return async () => {
      await post(workspace.service, '/v1/events/publish', { topic: second, data: {} })
      return waiting(flow)
    }
  },
  'starts an execution that lasts, and whose end starts another': async (account) => {
    const first = await executions.publish(BOARD)
    const on = `schedule: { on: { one: { with: { type: platform.execution.cancelled, data: '\${ .flow.name == "${first}" }' } } } }\n`
    const flow = await executions.publish(BOARD, { more: on })
    const run = await executions.start(first, {}, account)
    return async () => {
      await ok(executions.send(run, 'cancel'))
      return waiting(flow)
    }
  },
  'publishes a flow with a schedule': async (account) => {
    const flow = unique('cron')
    await publishScheduled(as(account), flow, '{ cron: 0 0 1 1 * }', `[${BOARD.trim().slice(2)}]`)
    return async () => {
      const schedule = scheduleId(workspace, await onlyScheduleOf(workspace, flow))
      await withReadingClient((client) => client.schedule.getHandle(schedule).trigger())
      return waiting(flow)
    }
  },
  'deploys a function, which an event starts': async (account) => {
    const flow = await executions.publish(BOARD)
    const topic = unique('topic')
    await deploy(account, starting(flow), { ...SCOPES, triggers: [{ topics: [topic] }] })
    return async () => {
      await post(workspace.service, '/v1/events/publish', { topic, data: {} })
      return waiting(flow)
    }
  },
  'starts an execution, whose run of a function fails and is run again': async (account) => {
    const flow = await executions.publish(BOARD)
    const name = unique('fn')
    const id = await deploy(bob.as, "export default () => { throw new Error('not yet') }", SCOPES, name)
    const caller = await deploy(
      bob.as,
      `export default (_given, { tenon }) => tenon.functions.invoke('${name}', {}, { respond_async: true })`,
      { scopes: ['functions:write'] },
    )
    const calling = await executions.publish(
      `  - go: { call: function.invoke, with: { id: ${caller}, input: {} } }`,
    )
    await executions.ended(await executions.start(calling, {}, account))
    const letter = await eventually(async () => {
      const [found] = await asSuperuser<{ id: string }>(
        'select id from tenon.function_runs where function_id = $1 and is_dead_letter',
        [id],
      )
      return found?.id
    })
    await deploy(bob.as, starting(flow), SCOPES, name)
    return async () => {
      await ok(call('POST', `/v1/functions/${id}/runs/${letter}/redrive`, { as: bob.as }))
      return waiting(flow)
    }
  },
}

test.each(Object.keys(WAYS))(
  'an account %s: confirmed before the execution: its maker still may not decide',
  async (name) => {
    const account = await admins.made(mallory.as)
    const start = await (WAYS[name] as Way)(account.as)
    await post(carol.as, `/v1/accounts/${account.id}/confirm`)
    const run = await start()
    await executions.until(run, (one) => one.status === 'waiting' && one.approvals?.length === 1)
    const refused = await executions.send(run, 'approve', { approved: true }, mallory.as)
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('(fourEyes)')])
    await ok(executions.send(run, 'approve', { approved: true }, carol.as))
  },
)

test('an account that was confirmed before it does anything: its maker decides', async () => {
  const account = await admins.made(mallory.as)
  await post(carol.as, `/v1/accounts/${account.id}/confirm`)
  const flow = await executions.publish(BOARD)
  const { key: apikey } = await admins.newKey(account.as)
  const run = (await post({ apikey }, `/v1/flows/${flow}/executions`)).id
  await executions.until(run, (one) => one.status === 'waiting' && one.approvals?.length === 1)
  await ok(executions.send(run, 'approve', { approved: true }, mallory.as))
})
