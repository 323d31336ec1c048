/** Trials of the commands to executions: each gets an execution that waits for it, and tells what it has made of it. */

import { createEntry, Executions, type Shown } from '../support/fixtures/executions.ts'
import { call, eventually } from '../support/fixtures/tenants.ts'
import type { Trial } from './idempotency-faults-trials.ts'
import type { World } from './sweep-rows.ts'

/** The document that the flow writes once it goes on: one more row of the tenant. */
const GO_ON = `  - went: { ${createEntry('went')} }`
const listen = (name: string) => `  - ${name}: { listen: { to: { one: { with: { type: x } } } } }`
const ask = (quorum: number) =>
  `  - ask: { approve: { approvers: [role:service, role:operator], quorum: ${quorum}, fourEyes: false } }`
const FIND = "  - find: { call: collection.get, with: { name: secrets, id: '${ .id }' } }"
const UNDONE = `  - book: { ${createEntry('booked')}, compensate: [{ free: { ${createEntry('freed')} } }] }`
const HOLD = 'onFault: hold\n'
const NOT_THERE = '0198c0de-0000-7000-8000-000000000000'
const SIGNAL = { event: { type: 'x' } }

const executionsOf = ({ workspace }: Pick<World, 'workspace'>) => new Executions(workspace)

/** Flows that were published, by workspace and source. */
const published = new Map<string, Promise<string>>()

async function startFlow(world: World, tasks: readonly string[], input = {}, more = ''): Promise<string> {
  const source = tasks.join('\n')
  const key = `${world.workspace.workspaceId} ${more}${source}`
  const name = published.get(key) ?? executionsOf(world).publish(source, { more })
  published.set(key, name)
  return executionsOf(world).start(await name, { input })
}

/** Starts an execution. @returns it once it has this status */
async function waiting(
  world: World,
  tasks: readonly string[],
  { status = 'waiting', input = {}, more = '' } = {},
): Promise<Shown> {
  const id = await startFlow(world, tasks, input, more)
  return executionsOf(world).shown(id, status)
}

const asTarget = ({ id: executionId }: Shown) => ({ executionId })
const asApproval = ({ approvals: [{ id: approvalId }], ...rest }: Shown) => ({
  approvalId,
  ...asTarget(rest),
})

/** An execution whose first step found no document, and is held. @param id that it looks for next */
async function held(world: World, id: string) {
  const execution = await waiting(world, [FIND, GO_ON], {
    ...{ status: 'suspended', input: { id: NOT_THERE }, more: HOLD },
  })
  await executionsOf(world).send(execution.id, 'patch-data', { step: 'find', input: { id } })
  return asTarget(execution)
}

async function paused(world: World, tasks: readonly string[]): Promise<{ executionId: string }> {
  const { id } = await waiting(world, tasks)
  await executionsOf(world).send(id, 'pause')
  return { executionId: id }
}

/** An execution that has heard its event while it was paused, and goes on once it is resumed. */
async function pausedBeforeGoingOn(world: World) {
  const target = await paused(world, [listen('heard'), GO_ON])
  await executionsOf(world).send(target.executionId, 'signal', SIGNAL)
  await executionsOf(world).until(target.executionId, ({ steps: [step] }) => step.status === 'completed')
  return target
}

/**
 * Waits until an execution has done what it was told: it handles messages in their order, and refuses this one. So a
 * request that is repeated finds it ended, if the command has ended it.
 */
async function settle({ workspace, executionId }: World): Promise<void> {
  const executions = new Executions(workspace)
  const { body } = await executions.send(executionId, 'retry-step', { step: '/none#0' })
  if (!String(body.detail).includes('does not wait for a decision')) await executions.ended(executionId)
}

const stepsOf = ({ steps }: Shown) =>
  steps.map(({ name, status, attempt }: Shown) => `${name} ${status} ${attempt}`)

const ended = async (world: World) => {
  const execution = await executionsOf(world).ended(world.executionId)
  return [execution.status, ...stepsOf(execution)]
}

/** The open execution, once its last step is this one. */
const until = (status: string, last: string) => async (world: World) => {
  const isThere = (shown: Shown) => shown.status === status && stepsOf(shown).at(-1) === last
  return stepsOf(await executionsOf(world).until(world.executionId, isThere))
}

/** The status of the approval once a decision is on record, and the number of decisions. */
const decisionsOn = ({ workspace: { flows, operator: as }, approvalId }: World) =>
  eventually(async () => {
    const { body } = await call('GET', `${flows}/approvals/${approvalId}`, { as })
    return body.decisions.length === 0 ? undefined : [body.status, body.decisions.length]
  })

/** An approval that ends with the decision, and one that waits for others. */
const APPROVALS: readonly Trial[] = [
  {
    title: 'the last decision',
    prepare: async (world) => asApproval(await waiting(world, [ask(1), GO_ON])),
    settle,
    effect: async (world) => [...(await ended(world)), ...(await decisionsOn(world))],
    expected: ['completed', 'ask completed 1', 'went completed 1', 'approved', 1],
  },
  {
    title: 'one decision of two',
    prepare: async (world) => asApproval(await waiting(world, [ask(2)])),
    settle,
    effect: decisionsOn,
    expected: ['open', 1],
  },
]

export const EXECUTION_TRIALS: Readonly<Record<string, readonly Trial[]>> = {
  'execution.signal': [
    {
      title: 'the last event',
      prepare: async (world) => asTarget(await waiting(world, [listen('heard'), GO_ON])),
      settle,
      effect: ended,
      expected: ['completed', 'heard completed 1', 'went completed 1'],
    },
    {
      title: 'one event of two',
      prepare: async (world) =>
        asTarget(
          await waiting(world, [listen('heard'), GO_ON, listen('again'), GO_ON.replace('went', 'more')]),
        ),
      settle,
      effect: until('waiting', 'again running 1'),
      expected: ['heard completed 1', 'went completed 1', 'again running 1'],
    },
  ],
  'execution.approve': APPROVALS,
  'approval.decide': APPROVALS,
  'inbox.decide': APPROVALS,
  'execution.retry_step': [
    {
      title: 'the step completes',
      prepare: (world) => held(world, world.documentId),
      settle,
      effect: ended,
      expected: ['completed', 'find completed 2', 'went completed 1'],
    },
    {
      title: 'the step is held again',
      prepare: (world) => held(world, NOT_THERE),
      settle,
      effect: until('suspended', 'find running 2'),
      expected: ['find running 2'],
    },
  ],
  'execution.skip_step': [
    {
      prepare: (world) => held(world, NOT_THERE),
      settle,
      effect: ended,
      expected: ['completed', 'find skipped 1', 'went completed 1'],
    },
  ],
  'execution.pause': [
    {
      prepare: async (world) => asTarget(await waiting(world, [listen('heard'), GO_ON])),
      settle,
      effect: until('suspended', 'heard running 1'),
      expected: ['heard running 1'],
    },
  ],
  'execution.resume': [
    {
      prepare: pausedBeforeGoingOn,
      settle,
      effect: ended,
      expected: ['completed', 'heard completed 1', 'went completed 1'],
    },
  ],
  'execution.patch_data': [
    {
      prepare: (world) => paused(world, [listen('heard'), "  - seen: { set: '${ $context }' }"]),
      settle,
      effect: async (world) => {
        await executionsOf(world).send(world.executionId, 'resume')
        await executionsOf(world).send(world.executionId, 'signal', SIGNAL)
        return (await executionsOf(world).ended(world.executionId)).output
      },
      expected: { x: 1 },
    },
  ],
  'execution.cancel': [
    {
      prepare: async (world) => asTarget(await waiting(world, [UNDONE, listen('heard')])),
      settle,
      effect: ended,
      expected: ['cancelled', 'book completed 1', 'heard cancelled 1', 'free completed 1'],
    },
  ],
}
