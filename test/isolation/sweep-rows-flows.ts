/** Rows of the sweep for flows and their executions. */

import { call, eventually, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'

export const SOURCE = (name: string) =>
  `document:\n  dsl: '1.0.3'\n  namespace: test\n  name: ${name}\n  version: '1.0.0'\nschedule:\n  cron: 0 0 1 1 *\ndo:\n  - hello:\n      set: { ok: true }\n`

/** A flow with a webhook. */
export const HOOKED = SOURCE('hooked').replace('cron: 0 0 1 1 *', 'webhook: {}')

/** A flow that an event would start. */
const TRIGGERED = SOURCE('triggered').replace(
  'cron: 0 0 1 1 *',
  'on: { one: { with: { type: sweep.never } } }',
)

interface World {
  readonly workspace: TestWorkspace
  readonly flowId: string
  readonly executionId: string
  readonly approvalId: string
  readonly scheduleId: string
  readonly webhookId: string
  readonly eventTriggerId: string
}

/** A row with a path below the workspace's flows. */
const row = (path: (world: World) => string, body?: () => unknown) => ({
  path: (world: World) => `${world.workspace.flows}${path(world)}`,
  ...(body !== undefined && { body }),
  foreign: 'not_found' as const,
})

/** A row with a path that names no workspace. */
const keyed = (path: (world: World) => string, body?: () => unknown) => ({
  path: (world: World) => `/v1/flows${path(world)}`,
  ...(body !== undefined && { body }),
  foreign: 'not_found' as const,
})

const flow = (tail: string, body?: () => unknown) =>
  row(({ flowId }) => `/definitions/${flowId}${tail}`, body)
const run = (tail: string, body?: () => unknown) =>
  row(({ executionId }) => `/executions/${executionId}${tail}`, body)
const schedule = (tail: string, body?: () => unknown) =>
  row(({ scheduleId }) => `/schedules/${scheduleId}${tail}`, body)

const hook = (tail: string, body: () => object = () => ({})) =>
  row(({ webhookId }) => `/triggers/${webhookId}${tail}`, body)

export const FLOW_ROWS = {
  'flow.list': row(() => '/definitions'),
  'flow.create': row(
    () => '/definitions',
    () => ({ source: SOURCE(unique('f')) }),
  ),
  'flow.get': flow(''),
  'flow.update': flow('', () => ({ source: SOURCE('changed') })),
  'flow.delete': flow(''),
  'flow.metrics': flow('/metrics?metric=executions&window=1h'),
  'flow.validate': row(
    () => '/validate',
    () => ({ source: SOURCE('x') }),
  ),
  'flow.graph': row(
    () => '/graph',
    () => ({ source: SOURCE('x') }),
  ),
  'flow.simulate': row(
    () => '/simulate',
    () => ({ source: SOURCE('x') }),
  ),
  'flow_version.create': flow('/versions', () => ({})),
  'flow_version.list': flow('/versions'),
  'flow_version.get': flow('/versions/1'),
  'flow_alias.list': flow('/aliases'),
  'flow_alias.get': flow('/aliases/production'),
  'flow_alias.set': flow('/aliases/production', () => ({ version: 1 })),
  'flow_alias.delete': flow('/aliases/production'),
  'flow_secret.set': row(
    () => '/secrets/key',
    () => ({ value: 'long enough' }),
  ),
  'flow_secret.list': row(() => '/secrets'),
  'flow_secret.delete': row(() => '/secrets/key'),
  'execution.create': flow('/executions', () => ({ input: {} })),
  'execution.signal': run('/signal', () => ({ event: { type: 'x' } })),
  'execution.approve': run('/approve', () => ({ approved: true })),
  'execution.retry_step': run('/retry-step', () => ({})),
  'execution.skip_step': run('/skip-step', () => ({})),
  'execution.pause': run('/pause', () => ({})),
  'execution.resume': run('/resume', () => ({})),
  'execution.patch_data': run('/patch-data', () => ({ context: { x: 1 } })),
  'execution.cancel': run('/cancel', () => ({})),
  'execution.rerun': run('/rerun', () => ({})),
  'execution.get': run(''),
  'execution_step.list': run('/steps'),
  'execution_step.get': run('/steps/0'),
  'execution.watch': run('/events'),
  'execution.subscribe': row(() => '/executions/events'),
  'execution.list': row(() => '/executions'),
  'flow_execution.list': flow('/executions'),
  'approval.list': { ...row(() => '/approvals'), foreign: 'not_found' as const },
  'approval.get': row(({ approvalId }) => `/approvals/${approvalId}`),
  'approval.decide': row(
    ({ approvalId }) => `/approvals/${approvalId}/decide`,
    () => ({ approved: true }),
  ),
  'inbox.list': { path: () => '/v1/approvals', foreign: 'own_list' as const },
  'inbox.get': {
    path: ({ approvalId }: World) => `/v1/approvals/${approvalId}`,
    foreign: 'not_found' as const,
  },
  'inbox.decide': {
    path: ({ approvalId }: World) => `/v1/approvals/${approvalId}/decide`,
    body: () => ({ approved: true }),
    foreign: 'not_found' as const,
  },
  'flow.start': keyed(
    ({ flowId }) => `/${flowId}/executions`,
    () => ({ input: {} }),
  ),
  'flow.list_executions': keyed(({ flowId }) => `/${flowId}/executions`),
  'flow.get_execution': keyed(({ executionId }) => `/executions/${executionId}`),
  'flow.watch_execution': keyed(({ executionId }) => `/executions/${executionId}/events`),
  'flow.get_result': keyed(({ executionId }) => `/executions/${executionId}/result`),
  'schedule.list': row(() => '/schedules'),
  'schedule.get': schedule(''),
  'schedule.pause': schedule('/pause', () => ({})),
  'schedule.resume': schedule('/resume', () => ({})),
  'schedule.trigger': schedule('/trigger', () => ({})),
  'trigger.list': row(() => '/triggers'),
  'trigger.rotate_secret': hook('/rotate-secret'),
  'trigger.pause': hook('/pause'),
  'trigger.resume': hook('/resume'),
  'trigger.test': row(
    ({ eventTriggerId }) => `/triggers/${eventTriggerId}/test`,
    () => ({ event: { type: 'a' } }),
  ),
}

/** Commands refused for an execution that has ended, as that of the sweep has. */
export const RUN_COMMANDS = [
  'execution.signal',
  'execution.approve',
  'execution.retry_step',
  'execution.skip_step',
  'execution.pause',
  'execution.resume',
  'execution.patch_data',
  'execution.cancel',
]

/** Publishes a flow with an event trigger, and sets the secret of the rows. @returns the id of the trigger */
export async function createTrigger({ flows, operator: as }: TestWorkspace): Promise<string> {
  await call('PUT', `${flows}/secrets/key`, { as, body: { value: 'long enough' } })
  await call('POST', `${flows}/definitions`, { as, body: { source: TRIGGERED } })
  await call('POST', `${flows}/definitions/triggered/versions`, { as, body: {} })
  const { body } = await call('GET', `${flows}/triggers`, { as })
  return body.data.find(({ kind }: { kind: string }) => kind === 'event').id
}

/** An approval that stays open however often the sweep decides it. @returns its id */
/** In payloads of executions and runs that others than the sweep's admins have started, and nowhere else. */
export const PAYLOAD = 'sent-by-the-starter'

export async function askApproval({ flows, operator: as }: TestWorkspace): Promise<string> {
  const approve = '{ approvers: [role:service, role:operator], quorum: 100, fourEyes: false }'
  const source = `document: { dsl: '1.0.3', namespace: test, name: asks, version: '1.0.0' }\ndo:\n  - ask: { approve: ${approve} }\n`
  await call('POST', `${flows}/definitions`, { as, body: { source } })
  await call('POST', `${flows}/definitions/asks/versions`, { as, body: {} })
  await call('POST', `${flows}/definitions/asks/executions`, { as, body: { input: { text: PAYLOAD } } })
  return eventually(async () => (await call('GET', `${flows}/approvals`, { as })).body.data[0]?.id)
}
