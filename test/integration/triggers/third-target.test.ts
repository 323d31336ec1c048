/**
 * A target of triggers that only this file knows: schedules, events, document changes and webhooks start it as they start flows
 * and functions. What starts it has no other knowledge of its targets than `TriggerTarget`.
 */

import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { createTriggerScopes } from '../../../src/activities/flow/background-work.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import type { TriggerKind } from '../../../src/core/execution.ts'
import { uuidOf } from '../../../src/core/ids.ts'
import type { StreamName } from '../../../src/features/events/events.ts'
import { eventTriggerConsumers } from '../../../src/features/runs/triggers/event-consumers.ts'
import { streamsOf } from '../../../src/features/runs/triggers/events.ts'
import { sign } from '../../../src/features/runs/triggers/standard-webhooks.ts'
import type {
  DeclaredTrigger,
  TriggerStart,
  TriggerTarget,
} from '../../../src/features/runs/triggers/trigger.ts'
import { TriggerStarter } from '../../../src/features/runs/triggers/trigger-starter.ts'
import {
  type Declaration,
  declareTriggers,
  placeOf,
  syncSchedules,
} from '../../../src/features/runs/triggers/trigger-store.ts'
import { createSecrets, type DeclaredWebhook } from '../../../src/features/runs/triggers/webhooks.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import { SystemScope } from '../../../src/infra/postgres/system-scope.ts'
import { changesOf, eventsOf } from '../../../src/infra/valkey/streams.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import { isInTemporal } from '../../support/fixtures/schedules.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { scopeOf } from '../../support/stack/in-process-platform.ts'

type Opened = ReturnType<typeof openPlatform>

const VERSION = 7
/** Starts by the ids of their runs. */
const runs = new Map<string, TriggerStart>()

const probe: TriggerTarget = {
  kind: 'probe',
  name: sql`'probe of ' || t.target_id`,
  facts: () => sql`select json_build_object('has_started', false)`,
  start: async (_scope, start) => {
    runs.set(start.runId, start)
    return { run: start.runId }
  },
  respond: async (_scope, { runId, start }) => {
    await start()
    return { status: 201, headers: { 'x-probe': runId }, body: 'heard' }
  },
}

let opened: Opened
let starter: TriggerStarter
let workspace: TestWorkspace
let scope: WorkspaceScope
let node: Node
beforeAll(async () => {
  opened = openPlatform(parseConfig(inject('tenon').env), openLog('silent', 'test'))
  starter = new TriggerStarter([probe])
  workspace = await createTestWorkspace()
  scope = scopeOf(opened.platform, workspace)
  node = await startInProcessNode({}, inject('tenon'), { triggers: starter })
})
afterAll(async () => {
  await node?.close()
  await opened?.platform.close()
})

interface Declared {
  readonly target: { readonly kind: string; readonly id: string }
  /** By key. */
  readonly ids: ReadonlyMap<string, string>
  readonly webhooks: readonly DeclaredWebhook[]
}

/** Declares the triggers of a target, and brings their schedules to Temporal. */
async function declare(
  id: string,
  triggers: readonly DeclaredTrigger[],
  before: readonly string[] = [],
): Promise<Declared> {
  const target = { kind: probe.kind, id }
  const declaration: Declaration = {
    of: probe,
    id,
    target: sql`select tenant_id, id as workspace_id, ${id}::text as id, ${VERSION}::integer as version
      from workspaces where id = ${workspace.workspaceId}`,
    kinds: ['schedule', 'webhook', 'event'] satisfies TriggerKind[],
    triggers,
  }
  const place = placeOf(scope)
  const secrets = createSecrets(scope, target, triggers)
  const answers = await scope.batch(...(await declareTriggers(place, declaration)), secrets.statement)
  await syncSchedules(place, probe, { target, before })
  const rows = await scope.rows<{ id: string; key: string }>(
    sql`select id, key from triggers where target_kind = ${probe.kind} and target_id = ${id}`,
  )
  return {
    target,
    ids: new Map(rows.map((row) => [row.key, row.id])),
    webhooks: secrets.toWebhooks(answers.at(-1) ?? []),
  }
}

const idOf = ({ ids }: Declared, key: string): string => ids.get(key) ?? ''
const countsOf = async (triggerId: string) =>
  scope.row(
    sql`select seen, started, dropped, last_run_id from trigger_states where trigger_id = ${triggerId}`,
  )

test('schedule of a third target: is in Temporal, starts one run for each due time, and ends with its declaration', async () => {
  const schedule = {
    kind: 'schedule',
    key: 'yearly',
    spec: { cron: '0 0 1 1 *', overlap: 'skip', catch_up_ms: 60_000, input: { n: 1 } },
  } as const
  const declared = await declare(unique('probe'), [schedule])
  const id = idOf(declared, 'yearly')
  const inTemporal = `${workspace.tenantId}:${workspace.workspaceId}:${declared.target.id}:${uuidOf(id)}`
  expect(await isInTemporal(inTemporal)).toBe(true)
  const fire = (due_at: string) =>
    starter.startScheduled(scope, {
      ...{ trigger_id: id, target: declared.target },
      patience_ms: 60_000,
      due_at,
    })
  const [first, again, next] = [
    await fire('2031-01-01T00:00:00Z'),
    await fire('2031-01-01T00:00:00Z'),
    await fire('2032-01-01T00:00:00Z'),
  ]
  expect(again).toEqual(first)
  const { run_id: nextId = '' } = next as { run_id?: string }
  expect(runs.get(nextId)).toMatchObject({
    triggerId: id,
    kind: 'schedule',
    targetId: declared.target.id,
    version: VERSION,
    input: { n: 1 },
  })
  expect(await countsOf(id)).toMatchObject({ started: 2, last_run_id: nextId })
  await declare(declared.target.id, [], [id])
  expect(await isInTemporal(inTemporal)).toBe(false)
  expect(await fire('2033-01-01T00:00:00Z')).toEqual({ skipped: 'The probe no longer has this schedule.' })
})

test('event and document change: start one run each, also if they come again', async () => {
  const [topic, collection] = [unique('topic'), unique('c').replace('-', '_')]
  const topics = [`${topic}.*`, `collections.${collection}.created`]
  const declared = await declare(unique('probe'), [
    { kind: 'event', key: 'on', spec: { topics, streams: streamsOf(topics) } },
  ])
  const id = idOf(declared, 'on')
  const services = {
    starter,
    openScope: createTriggerScopes(opened.platform.access),
    log: opened.platform.log,
  }
  const consumers = eventTriggerConsumers(services)
  const system = new SystemScope('triggers', opened.parts.database)
  const listed = async (kind: typeof consumers) => (await kind.list(system)).map((one) => one.id)
  expect(await listed(consumers)).toContain(id)
  // The worker of the platform does not know this target, and leaves its triggers alone.
  expect(
    await listed(eventTriggerConsumers({ ...services, starter: opened.platform.triggers })),
  ).not.toContain(id)
  const published = await emitAt(workspace, `${topic}.made`, { n: 1 })
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n: 2 } })
  const before = runs.size
  /** Handles what a stream has, and stores how far it has come. */
  const consume = async (stream: StreamName) => {
    const consumption = consumers.open(id)
    const state = await consumption.load(system)
    if (state === undefined) throw new Error('no trigger')
    const key = stream === 'events' ? eventsOf(state.ref.tenantId) : changesOf(state.ref)
    const { entries } = await eventually(async () => {
      const following = await opened.parts.streams.following(key, state[`${stream}_offset`])
      return following.entries.length > 0 ? following : undefined
    })
    const handled = await consumption.handle(state, entries, undefined)
    await consumption.handle(state, entries, undefined)
    const after = { ...handled.state, [`${stream}_offset`]: entries.at(-1)?.id }
    expect(await consumption.store(system, state, after, undefined)).toBe(true)
  }
  await consume('events')
  await consume('changes')
  const started = [...runs.values()].slice(before)
  expect(started).toMatchObject([
    {
      triggerId: id,
      kind: 'event',
      version: VERSION,
      chainDepth: 0,
      input: { id: published, type: `${topic}.made`, data: { n: 1 } },
    },
    {
      triggerId: id,
      kind: 'event',
      input: { type: `collections.${collection}.created`, data: { document: { n: 2 } } },
    },
  ])
  expect(started[0]?.causes).not.toEqual([])
  expect(await countsOf(id)).toMatchObject({
    seen: 2,
    started: 2,
    dropped: 0,
    last_run_id: started[1]?.runId,
  })
})

test('webhook of a third target: a signed delivery starts one run, and gets its response', async () => {
  const declared = await declare(unique('probe'), [
    { kind: 'webhook', key: 'plain', spec: { headers: ['x-shop'] } },
    { kind: 'webhook', key: 'answered', spec: { headers: [], respond: { with: 'output', withinMs: 5_000 } } },
  ])
  const send = (key: string, id: string, body: string) => {
    const { url = '', secret = '' } = declared.webhooks.find((one) => one.key === key) ?? {}
    const seconds = Math.floor(Date.now() / 1_000)
    const signature = sign(secret, id, seconds, Buffer.from(body))
    const signed = { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signature }
    return call('POST', new URL(url).pathname, {
      at: node.at,
      body,
      headers: { ...signed, 'x-shop': 'north', 'content-type': 'application/json' },
    })
  }
  const message = unique('msg')
  const [first, again] = [await send('plain', message, '{"n":3}'), await send('plain', message, '{"n":3}')]
  expect([first.status, first.body.deduplicated, again.body]).toEqual([
    202,
    false,
    { ...first.body, deduplicated: true },
  ])
  expect(runs.get(first.body.execution_id)).toMatchObject({
    ...{
      triggerId: idOf(declared, 'plain'),
      kind: 'webhook',
      targetId: declared.target.id,
      version: VERSION,
    },
    input: { id: message, headers: { 'x-shop': 'north' }, body: { n: 3 } },
  })
  const answered = await send('answered', unique('msg'), '{}')
  expect([answered.status, answered.body]).toEqual([201, 'heard'])
  expect(runs.has(answered.headers.get('x-execution-id') ?? '')).toBe(true)
})
