/**
 * Replays recorded histories with the current bundle: a change that would break running executions fails
 * here.
 */

import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import type { PayloadCodec } from '@temporalio/common'
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js'
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { DeterminismViolationError } from '@temporalio/workflow'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { TASKS } from '../../../flows-dsl/tasks/index.ts'
import type { Platform } from '../../../src/app/platform.ts'
import { PURPOSE } from '../../../src/core/work.ts'
import { tenantOfPayload } from '../../../src/infra/temporal/payload-codec.ts'
import type { WirePayload } from '../../../src/infra/temporal/payload-reader.ts'
import { binary } from '../../../stack/binaries.mjs'
import { workflowDefinitions } from '../../support/clients/histories.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployTriggered, functionScheduleId } from '../../support/fixtures/function-triggers.ts'
import { executionsOf, publishScheduled } from '../../support/fixtures/schedules.ts'
import { buildIndex } from '../../support/fixtures/schemas.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import { suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { repeated } from '../../support/stack/soak.ts'
import { KINDS, prepare, runKind } from './flow-per-task-type.ts'
import { FlowRunner } from './flow-runner.ts'

const FOLDER = new URL('histories/', import.meta.url)

let platform: Platform
let temporal: Client
let replayer: Replayer
beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR', () => {}) })
  const { env } = inject('tenon')
  const bundle = await readFile(env['TENON_WORKFLOW_BUNDLE'] ?? '', 'utf8')
  platform = openInProcessPlatform()
  temporal = new Client({ connection: await Connection.connect({ address: env['TEMPORAL_ADDRESS'] ?? '' }) })
  replayer = new Replayer(bundle)
})
afterAll(async () => {
  await replayer?.close()
  await temporal?.connection.close()
  await platform?.close()
})

type History = Parameters<typeof Worker.runReplayHistory>[1]

/** Replays all histories with one worker: loading the bundle takes a worker a second of processor time. */
class Replayer {
  readonly #results: ReturnType<typeof Worker.runReplayHistories>
  #next: { readonly history: History; readonly workflowId: string } | undefined

  constructor(code: string) {
    const dataConverter = { payloadCodecs: [codec] }
    this.#results = Worker.runReplayHistories({ workflowBundle: { code }, dataConverter }, this.#histories())
  }

  /** @throws DeterminismViolationError if the code issues other commands than the history has */
  async replay(history: unknown, workflowId: string): Promise<void> {
    this.#next = { history: history as History, workflowId }
    const { value } = await this.#results.next()
    expect(value?.workflowId).toBe(workflowId)
    if (value?.error !== undefined) throw value.error
  }

  async close(): Promise<void> {
    await this.#results.return?.()
  }

  /** The worker asks for a history when the result of the one before has been read. */
  async *#histories() {
    while (this.#next !== undefined) yield this.#next
  }
}

/** A replay sends to no server, and the tenants of recorded executions are on other machines. */
const codec: PayloadCodec = {
  encode: async (payloads) => payloads,
  // Recorded payloads are not encrypted.
  decode: (payloads, context) =>
    Promise.all(
      payloads.map(async (payload) => {
        if (!tenantOfPayload(payload)) return payload
        return (await platform.codec.decode([payload], context))[0] ?? payload
      }),
    ),
}

const replay = (history: unknown, workflowId: string) => replayer.replay(history, workflowId)

interface Recorded {
  readonly workflow_id: string
  readonly history: {
    events: {
      workflowExecutionStartedEventAttributes?: { input: { payloads: readonly WirePayload[] } }
      activityTaskScheduledEventAttributes?: { activityType: { name: string } }
    }[]
  }
}

const names = await readdir(FOLDER)

async function read(name: string): Promise<Recorded> {
  return JSON.parse(await readFile(new URL(name, FOLDER), 'utf8'))
}

/** The definition for which the argument of the first event is sealed. */
function definitionIn({ history }: Recorded): string | undefined {
  const [argument] = history.events[0]?.workflowExecutionStartedEventAttributes?.input.payloads ?? []
  return bytesOf(argument?.metadata?.[PURPOSE] ?? '')
    .toString()
    .split(':')[1]
}

test('histories: cover each workflow definition', async () => {
  const definitions = await workflowDefinitions()
  expect(definitions).toContain('flowExecution')
  const kept = new Set((await Promise.all(names.map(read))).map(definitionIn))
  expect(definitions.filter((name) => !kept.has(name))).toEqual([])
})

test('histories: cover each kind of task', () => {
  const kept = names.flatMap((name) => /-task-(.+)\.json$/.exec(name)?.[1] ?? [])
  expect(KINDS.map(({ name }) => name).filter((name) => !kept.includes(name))).toEqual([])
  const shownKinds = KINDS.map(({ name }) => name.split('-')[0])
  expect(TASKS.map(({ kind }) => kind).filter((kind) => !shownKinds.includes(kind))).toEqual([])
})

test('history of `end-continued`: begins with the state of the run before it, and has onError', async () => {
  const [name = ''] = names.filter((one) => one.endsWith('-task-end-continued.json'))
  const { history } = await read(name)
  const started = history.events[0]?.workflowExecutionStartedEventAttributes
  expect(started).toMatchObject({ continuedExecutionRunId: expect.stringMatching(/./) })
  // The summary of the call under `onError`.
  expect(JSON.stringify(history)).toContain(Buffer.from('"tell: call collection.create"').toString('base64'))
})

test.each(names)('%s: replays', async (name) => {
  const { workflow_id, history } = await read(name)
  await replay(history, workflow_id)
})

test('history with other commands: does not replay, so the test above can fail', async () => {
  const { workflow_id, history } = await read('0.1.0-task-call-http.json')
  for (const event of history.events) {
    const scheduled = event.activityTaskScheduledEventAttributes
    if (scheduled !== undefined) scheduled.activityType.name = 'somethingElse'
  }
  await expect(replay(history, workflow_id)).rejects.toThrow(DeterminismViolationError)
})

test('executions of the running platform: replay (and are stored with TENON_RECORD)', async () => {
  const workspace = await provisionTestWorkspace()
  const as = workspace.operator
  const body = await readFile('flows-dsl/examples/hello.yaml', 'utf8')
  const made = await call('POST', `${workspace.flows}/definitions`, {
    as,
    body,
    headers: { 'content-type': 'application/yaml' },
  })
  await call('POST', `${workspace.flows}/definitions/hello/versions`, { as, body: {} })
  const run = await call('POST', `${workspace.flows}/definitions/${made.body.id}/executions`, {
    as,
    body: { input: { name: 'Ada' } },
    headers: { prefer: 'wait=20' },
  })
  const source = 'export default ({ name }: { name: string }) => `Hello, ${name}!`'
  const deploy = { workspace_id: workspace.workspaceId, name: 'hello', source }
  await call('POST', '/v1/functions', { as, body: deploy })
  const invoked = await call('POST', '/v1/functions/hello/invoke', {
    as: workspace.service,
    body: { name: 'Ada' },
  })
  expect(invoked.body).toBe('Hello, Ada!')
  const query = `TenantId = '${workspace.tenantId}'`
  const runs = await eventually(async () => {
    const found: string[] = []
    for await (const { workflowId } of temporal.workflow.list({ query })) found.push(workflowId)
    return found.length >= 4 ? found : undefined
  })
  expect(runs).toContain(run.body.workflow_id)
  for (const workflowId of runs) {
    const history = await downloadByCli(workflowId)
    await replay(history, workflowId)
    if (process.env['TENON_RECORD']) await keep(workflowId, history, kindOf(workflowId))
  }
})

test('execution that fails: replays', async () => {
  const executions = new Executions(await createTestWorkspace())
  const error = "{ type: 'https://serverlessworkflow.io/spec/1.0.0/errors/communication', status: 503 }"
  const run = await executions.ended(
    await executions.start(await executions.publish(`  - burst: { raise: { error: ${error} } }`)),
  )
  expect(run.status).toBe('faulted')
  const { workflow_id: workflowId } = run
  const history = await eventually(async () => {
    const found = await download(workflowId)
    return JSON.stringify(found).includes('EVENT_TYPE_WORKFLOW_EXECUTION_FAILED') ? found : undefined
  })
  await replay(history, workflowId)
  if (process.env['TENON_RECORD']) await keep(workflowId, history, 'flow-faulted')
})

test('scheduled starts: replay', async () => {
  const workspace = await createTestWorkspace()
  await publishScheduled(workspace, 'tick', '{ every: PT1S }')
  await eventually(async () =>
    (await executionsOf(workspace, 'tick'))[0]?.status === 'completed' ? true : undefined,
  )
  await publishScheduled(workspace, 'tick', '')
  await replayEnded(workspace, { 'tick (schedule)': 'scheduled-flow', registration: 'registration' })
})

test('scheduled start of a function: replays', async () => {
  const workspace = await createTestWorkspace()
  const fn = await deployTriggered(workspace, { schedule: { cron: '0 0 1 1 *' } })
  await temporal.schedule.getHandle(await functionScheduleId(fn)).trigger()
  await replayEnded(workspace, { [`${fn.name} (schedule)`]: 'scheduled-function' })
})

test('index builds and a suspension: replay', async () => {
  const workspace = await createTestWorkspace()
  await buildIndex(workspace)
  expect((await suspendWorkspace(workspace, workspace.operator)).status).toBe(200)
  await replayEnded(workspace, { indexBuild: 'index-build', suspension: 'suspension' })
})

test('bulk change: replays', async () => {
  const workspace = await createTestWorkspace()
  const as = workspace.service
  await call('POST', '/v1/collections/notes/documents', { as, body: { n: 1 } })
  const body = { filter: { n: 1 }, data: { n: 2 } }
  expect((await call('POST', '/v1/collections/notes/update-many', { as, body })).status).toBe(202)
  await replayEnded(workspace, { bulkChange: 'bulk-change' })
})

/** In the suite, the worker without a cache of test/resilience/flow-corpus.test.ts replays each of them before each step. */
const replaysKinds = process.env['TENON_RECORD'] !== undefined || repeated(0, 1) > 0

test.runIf(replaysKinds)('executions of each kind of task: replay', async () => {
  const kinds = {
    runner: new FlowRunner(await createTestWorkspace(), inject('tenon')),
    fakeServers: await FakeServers.open(),
  }
  try {
    await prepare(kinds)
    for (const kind of KINDS) {
      const { workflow_id } = await runKind(kind, kinds)
      const history = await download(workflow_id)
      await replay(history, workflow_id)
      if (process.env['TENON_RECORD']) await keep(workflow_id, history, `task-${kind.name}`)
    }
  } finally {
    await kinds.fakeServers.close()
  }
})

test('executions in which much ends at the same time in different ways: replay', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const fakeServers = await FakeServers.open({
    '/soon': () => ({ json: {}, lateMs: Math.random() * 20 }),
  })
  try {
    await allowLoopback(workspace, fakeServers)
    const name = await executions.publish(`  - all:
      for: { each: n, in: '\${ [range(24)] }', concurrency: 6 }
      do:
        - rest: { wait: { milliseconds: 3 }, if: $n % 3 == 0 }
        - ask: { call: http, with: { method: get, endpoint: '${fakeServers.origin}/soon' }, if: $n % 2 == 0 }
        - put: { call: collection.create, with: { name: many, document: { n: 1 } } }
        - told: { emit: { event: { with: { type: told, data: {} } } }, if: $n % 4 == 1 }
        - all: { call: collection.list, with: { name: many } }
`)
    for (let nth = 0; nth < repeated(3, 5); nth++) {
      const run = await executions.ended(await executions.start(name))
      expect(run.error).toBeNull()
      await replay(await download(run.workflow_id), run.workflow_id)
    }
  } finally {
    await fakeServers.close()
  }
})

test('executions that yield to others between timers and calls: replay', async () => {
  const executions = new Executions(await createTestWorkspace())
  const items = 12
  const name = await executions.publish(`  - all:
      for: { each: n, in: '\${ [range(${items})] }', concurrency: 6 }
      do:
        - rest: { wait: { milliseconds: 5 } }
        - put: { call: collection.create, with: { name: many, document: { n: 1 } }, if: $n % 2 == 0 }
        - costly: { set: '\${ reduce range(200000) as $i ($n; .) }' }
`)
  for (let nth = 0; nth < 3; nth++) {
    const run = await executions.ended(await executions.start(name))
    expect([run.error, run.output]).toEqual([null, Array.from({ length: items }, (_, n) => n)])
    const history = await download(run.workflow_id)
    const timers = JSON.stringify(history).match(/"EVENT_TYPE_TIMER_STARTED"/g)
    expect(timers?.length).toBeGreaterThan(items)
    await replay(history, run.workflow_id)
  }
})

/** Replays one workflow of the workspace of each of these types, after it has completed. */
async function replayEnded(workspace: TestWorkspace, kinds: Readonly<Record<string, string>>): Promise<void> {
  for (const [type, kind] of Object.entries(kinds)) {
    const query = `TenantId = '${workspace.tenantId}' and WorkflowType = '${type}' and ExecutionStatus = 'Completed'`
    const workflowId = await eventually(async () => {
      for await (const found of temporal.workflow.list({ query })) return found.workflowId
      return undefined
    }, 40_000)
    const history = await download(workflowId)
    await replay(history, workflowId)
    if (process.env['TENON_RECORD']) await keep(workflowId, history, kind)
  }
}

/** As JSON, which is kept with TENON_RECORD. */
const download = async (workflowId: string): Promise<unknown> =>
  JSON.parse(historyToJSON(await temporal.workflow.getHandle(workflowId).fetchHistory()))

/** As an operator gets it: the JSON that the Temporal UI downloads. */
async function downloadByCli(workflowId: string): Promise<unknown> {
  const path = await binary('temporal')
  const address = inject('tenon').env['TEMPORAL_ADDRESS'] ?? ''
  const args = ['workflow', 'show', '--workflow-id', workflowId, '--output', 'json', '--address', address]
  const { stdout } = await promisify(execFile)(path, args, { maxBuffer: 16 * 1024 * 1024 })
  return JSON.parse(stdout)
}

function kindOf(workflowId: string): string {
  const subject = workflowId.split(':')[2] ?? ''
  if (subject.startsWith('flow_')) return 'flow-hello'
  return subject.startsWith('fn_') ? 'function-hello' : `provision-${subject.replace('-provision', '')}`
}

async function keep(workflowId: string, history: unknown, kind: string): Promise<void> {
  // The worker's identity and machine are removed: they are no part of a replay.
  const kept = { workflow_id: workflowId, history: await decoded(history) }
  const text = JSON.stringify(kept, null, 1).replaceAll(/\d+@[\w.-]+/g, '1@worker')
  await writeFile(new URL(`${process.env['TENON_RECORD']}-${kind}.json`, FOLDER), `${text}\n`)
}

/** Decrypted, since the key is deleted with the tenant. */
async function decoded(value: unknown): Promise<unknown> {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Promise.all(value.map(decoded))
  if ('metadata' in value && 'data' in value) return plain(value as WirePayload)
  const entries = Object.entries(value).map(async ([name, member]) => [name, await decoded(member)])
  return Object.fromEntries(await Promise.all(entries))
}

async function plain(payload: WirePayload): Promise<WirePayload> {
  const metadata = Object.entries(payload.metadata ?? {}).map(([name, text]) => [name, bytesOf(text)])
  const [read] = await platform.codec.decode([
    { metadata: Object.fromEntries(metadata), data: bytesOf(payload.data ?? '') },
  ])
  if (read === undefined) return payload
  const texts = Object.entries(read.metadata ?? {}).map(([name, bytes]) => [name, base64(bytes)])
  // Stack traces contain paths of this machine.
  const data = Buffer.from(read.data ?? [])
    .toString('utf8')
    .replaceAll(`${process.cwd()}/`, '')
  return { metadata: Object.fromEntries(texts), data: base64(Buffer.from(data)) }
}

const bytesOf = (text: string) => Buffer.from(text, 'base64')
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
