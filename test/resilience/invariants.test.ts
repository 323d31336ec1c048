/** The checker of invariants (`tenon doctor --deep`) finds each contradiction, and none where there is none. */

import { Client } from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { findViolations, type Violation } from '../../src/cli/stack/invariants.ts'
import { runCommand } from '../support/clients/cli.ts'
import { Executions } from '../support/fixtures/executions.ts'
import { createTestWorkspace, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { expectInvariants } from '../support/stack/invariants.ts'
import { withRawClient } from '../support/stack/temporal.ts'

const WAITS = '  - hear: { listen: { to: { one: { with: { type: never } } } } }'
const QUICK = '  - a: { set: { x: 1 } }'

let database: Client
beforeAll(async () => {
  database = new Client({ connectionString: inject('tenon').databaseUrl })
  await database.connect()
  // Without triggers, which need the session of a tenant.
  await database.query('set session_replication_role = replica')
})
afterAll(() => database?.end())

/** A workspace with an execution that waits, one that has ended, and one that queues behind the first of its flow. */
async function populated() {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const flow = await executions.publish(WAITS)
  const waiting = await executions.shown(await executions.start(flow), 'waiting')
  const ended = await executions.ended(await executions.start(await executions.publish(QUICK)))
  return { workspace, waiting, ended }
}

test('doctor --deep: prints what the checker says', async () => {
  const { env, databaseUrl: DATABASE_URL } = inject('tenon')
  const { stdout } = await runCommand(['doctor', '--deep'], { env: { ...env, DATABASE_URL } })
  // Other tests may have broken records of their own.
  expect(stdout).toMatch(/^(✓ executions and runs +records and workflows agree|✗ \S+ +an? [a-z ]+: )/m)
})

/** Before the reconciler could see and repair it: within the transaction that breaks it. */
const found = async ({ tenantId }: TestWorkspace): Promise<readonly Violation[]> =>
  withRawClient((temporal) => findViolations({ database, temporal, tenants: [tenantId], graceSeconds: 0 }))

test('executions that wait and that have ended: no violation', async () => {
  const { workspace } = await populated()
  await expectInvariants(inject('tenon'), [workspace.tenantId])
})

/** Each breaks one invariant by hand, as a fault of the platform would, and names what is found. */
const FAULTS: Readonly<
  Record<string, (at: Awaited<ReturnType<typeof populated>>) => Promise<readonly [Violation['rule'], string]>>
> = {
  'record ended, workflow open': async ({ waiting }) => {
    await database.query(`update tenon.executions set ended_at = now(), status = 'faulted' where id = $1`, [
      waiting.id,
    ])
    return ['an open workflow has an open record', waiting.workflow_id]
  },
  'record open, workflow unknown': async ({ waiting }) => {
    await database.query(`update tenon.executions set workflow_id = workflow_id || '0' where id = $1`, [
      waiting.id,
    ])
    return ['an open execution has an open workflow', waiting.id]
  },
  'record says another end than Temporal': async ({ ended }) => {
    await eventually(async () =>
      withRawClient(async ({ workflow }) => {
        const { status } = await workflow.getHandle(ended.workflow_id).describe()
        return status.name === 'COMPLETED' ? true : undefined
      }),
    )
    await rewriteEnd(ended.id)
    return ['record and workflow end alike', ended.id]
  },
  'final status of another time than its event': async ({ ended }) => {
    await rewriteEnd(ended.id)
    return ['a final status is that of its event', ended.id]
  },
  'second final event': async ({ ended }) => {
    await database.query(
      `insert into tenon.execution_events (tenant_id, workspace_id, execution_id, seq, at, what)
        select tenant_id, workspace_id, execution_id, 999, now(), 'faulted' from tenon.execution_events
        where execution_id = $1 limit 1`,
      [ended.id],
    )
    return ['an ended execution has one final event', ended.id]
  },
  'slot of an ended execution': async ({ ended }) => {
    await insertSlot(ended.id, 'admitted')
    return ['a slot belongs to an open record', ended.id]
  },
  'queue without a running execution': async ({ waiting }) => {
    const flow = await insertSlot(waiting.id, 'queued')
    return ['a queue moves while a slot is free', `${flow} k`]
  },
}

/** As nothing but a fault of the database could: it refuses such a change. */
async function rewriteEnd(id: string): Promise<void> {
  await database.query('set local session_replication_role = replica')
  await database.query(`update tenon.executions set status = 'cancelled' where id = $1`, [id])
  await database.query('set local session_replication_role = origin')
}

async function insertSlot(id: string, state: string): Promise<string> {
  const { rows } = await database.query(
    `insert into tenon.run_slots (tenant_id, workspace_id, kind, run_id, owner_id, key, max, state, start, checked_at)
      select tenant_id, workspace_id, 'execution', id, flow_id, 'k', 1, $2, '{}', now() - interval '1 hour' from tenon.executions
      where id = $1 returning owner_id`,
    [id, state],
  )
  return rows[0]?.owner_id
}

test.each(Object.keys(FAULTS))('%s: is found', async (fault) => {
  const at = await populated()
  await expectInvariants(inject('tenon'), [at.workspace.tenantId])
  await database.query('begin')
  try {
    const [rule, subject] = (await FAULTS[fault]?.(at)) ?? []
    expect(await found(at.workspace)).toContainEqual({ rule, subject, detail: expect.stringMatching(/\.$/) })
  } finally {
    await database.query('rollback')
  }
})
