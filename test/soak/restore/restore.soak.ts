/**
 * The restore drill: clients write while `tenon backup follow` runs; everything is killed and its data deleted; a restore to a time
 * brings back what was acknowledged before it, and nothing else. `npm run test:restore`.
 */

import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Ports } from '../../../stack/ports.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'
import { withRawClient } from '../../support/stack/temporal.ts'
import { Ledger } from './ledger.ts'
import { LocalInstallation, outlineOf } from './local-installation.ts'
import { Session } from './session.ts'

const WRITERS = 4
const WRITING_MS = Number(process.env['TENON_RESTORE_SECONDS'] ?? 10) * 1_000
const TIMEOUT_MS = 1_800_000
/** Executions of the restored installation are compared with Temporal, and purges begin again, within this time. */
const SETTLED_MS = 180_000

/** Waits for a signal, and ends with it. */
const WAITS = '  - wait:\n      listen: { to: { one: { with: { type: go } } } }\n'

/** What the installation had, by what a restore to the moment makes of it. */
interface World {
  readonly workspace: TestWorkspace
  readonly ledger: Ledger
  readonly session: Session
  /** The id of the last event that was heard. */
  readonly eventId: string
  /** A tenant that is purged after the moment. */
  readonly purgedId: string
  /** Executions: open in the database and in the copy of Temporal; open in that copy alone; unknown to it; begun after the moment. */
  readonly kept: string
  readonly ended: string
  readonly lost: string
  readonly later: string
  /** A flow that a schedule starts each second. */
  readonly scheduled: string
  readonly momentMs: number
}

test(
  'restore: all data is deleted while clients write: what was acknowledged before the moment is there, and nothing later',
  async () => {
    const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
    const installation = await LocalInstallation.make(port)
    try {
      const world = await writeUntilKilled(installation)
      const { installation: id, ranges } = JSON.parse(await installation.run('backup', 'list', '--json'))
      const { until } = ranges.at(-1)
      const to = new Date(world.momentMs).toISOString()
      const { rtoMs, at, printed } = await restoreAndWrite(installation, world, to)
      const counts = await world.ledger.compare(at, world.momentMs)
      expect(counts.before).toBeGreaterThan(0)
      expect(counts.after).toBeGreaterThan(0)
      await expectSettled(world, at, printed)
      await expectFinished(installation, world, at)
      await maintain(installation, to)
      await expect(installation.run('restore', '--to', 'latest')).rejects.toThrow(`--yes=${id}`)
      // What was pruned must not be what a moment needs.
      const checked = JSON.parse(await installation.run('backup', 'verify', '--json', '--to', until))
      expect(checked).toMatchObject({ faults: [] })
      await installation.run('restore', '--to', until, `--yes=${id}`)
      await world.ledger.compare(await installation.start(), Date.parse(until))
      expect(await undocumented(installation.commands)).toEqual([])
      report(counts, { rtoMs, rpoMs: Math.max(0, world.ledger.lastAckMs - Date.parse(until)) })
    } finally {
      closeSubscriptions()
      await installation.remove()
    }
  },
  TIMEOUT_MS,
)

async function writeUntilKilled(installation: LocalInstallation): Promise<World> {
  const at = await installation.start()
  const workspace = await createTestWorkspaceWithStorage(at)
  const { tenantId: purgedId } = await createTestWorkspaceWithStorage(at)
  const executions = new Executions(workspace, at)
  const flow = await executions.publish(WAITS)
  const startWaiting = async () => {
    const id = await executions.start(flow)
    await executions.shown(id, 'waiting')
    return id
  }
  const [kept, ended] = [await startWaiting(), await startWaiting()]
  await installation.follow()
  // After the copy of Temporal, which knows neither this schedule nor that this execution ends.
  const scheduled = await executions.publish('  - go:\n      set: { done: true }\n', {
    more: 'schedule: { every: { seconds: 1 } }\n',
  })
  await executions.send(ended, 'signal', { event: { type: 'go' } })
  await executions.shown(ended, 'completed')
  const session = await Session.start(workspace, at)
  expect(await session.next(at)).toBeUndefined()
  expect(await session.count(at)).toBe(1)
  const eventId = await hearOne(workspace, at)
  const ledger = new Ledger(workspace)
  const writing = Promise.all(Array.from({ length: WRITERS }, (_, n) => ledger.write(at, n)))
  const lost = await startWaiting()
  await pause(WRITING_MS / 2)
  const momentMs = Date.now()
  await pause(WRITING_MS / 4)
  const later = await executions.start(flow)
  await purge(workspace, purgedId, at)
  const purgedAt = Date.now()
  // The repository knows of the purge with the first moment after it.
  await installation.followed(purgedAt)
  await installation.kill()
  ledger.stop()
  await writing
  return { workspace, ledger, session, eventId, purgedId, kept, ended, lost, later, scheduled, momentMs }
}

/** @returns the id of an event that a subscriber has heard */
async function hearOne({ service: as }: TestWorkspace, at: Running): Promise<string> {
  const listened = await subscribeToEvents(as, 'topic=drill.*', {}, at)
  await call('POST', '/v1/events/publish', { as, at, body: { topic: 'drill.before', data: {} } })
  return eventually(async () => listened.find(({ data }) => data.type === 'drill.before')?.id)
}

async function purge({ operator: as }: TestWorkspace, tenantId: string, at: Running): Promise<void> {
  const { status, headers } = await call('DELETE', `/v1/tenants/${tenantId}?grace_days=0`, { as, at })
  expect(status).toBe(202)
  await eventually(async () => {
    const { body } = await call('GET', headers.get('location') ?? '', { as, at })
    return body.state === 'succeeded' || undefined
  }, SETTLED_MS)
}

/** From an empty machine to the first write that is accepted. */
async function restoreAndWrite(
  installation: LocalInstallation,
  { workspace: { service: as } }: World,
  to: string,
): Promise<{ rtoMs: number; at: Running; printed: string }> {
  await installation.deleteData()
  const beganMs = performance.now()
  const printed = await installation.run('restore', '--to', to)
  const at = await installation.start()
  const body = { name: 'the first one after the restore' }
  await eventually(async () => {
    const { status } = await call('POST', '/v1/collections/afterwards/documents', { as, at, body })
    return status === 201 || undefined
  })
  return { rtoMs: performance.now() - beganMs, at, printed }
}

async function expectSettled(world: World, at: Running, printed: string): Promise<void> {
  const { workspace, session, eventId, purgedId, kept, ended, lost, later, scheduled } = world
  const { operator: as } = workspace
  const executions = new Executions(workspace, at)
  await executions.send(kept, 'signal', { event: { type: 'go' } })
  await executions.shown(kept, 'completed')
  expect(await executions.ended(lost, SETTLED_MS)).toMatchObject({
    ...{ status: 'faulted', error: { type: 'lost_in_restore' } },
  })
  // Temporal's copy had it running: it was terminated there, and is what the database says.
  expect(Number(/(\d+) workflows and/.exec(printed)?.[1])).toBeGreaterThan(0)
  expect(await executions.read(ended)).toMatchObject({ status: 'completed' })
  expect(await statusInTemporal(at, ended)).toBe('TERMINATED')
  expect((await call('GET', `${workspace.flows}/executions/${later}`, { as, at })).status).toBe(404)
  await eventually(async () => {
    const { status } = await call('GET', `/v1/tenants/${purgedId}`, { as, at })
    return status === 404 || undefined
  }, SETTLED_MS)
  expect(await session.count(at)).toBe(0)
  expect(await session.next(at)).toBe('invalid_grant')
  const heard = await subscribeToEvents(workspace.service, 'topic=drill.*', { 'last-event-id': eventId }, at)
  expect(heard.map(({ event }) => event)).toContain('gap')
  expect(await startsOf(at, scheduled)).toBe(0)
}

async function statusInTemporal(at: Running, execution: string): Promise<string | undefined> {
  const [row] = await asSuperuser<{ workflow_id: string }>(
    'select workflow_id from tenon.executions where id = $1',
    [execution],
    at,
  )
  const { status } = await withRawClient(
    (client) => client.workflow.getHandle(row?.workflow_id ?? '').describe(),
    at,
  )
  return status.name
}

async function expectFinished(
  installation: LocalInstallation,
  { scheduled }: World,
  at: Running,
): Promise<void> {
  expect(await startsOf(at, scheduled)).toBe(0)
  expect(await installation.run('restore', 'finish')).toMatch(/1 triggers go on/)
  await eventually(async () => (await startsOf(at, scheduled)) > 0 || undefined, SETTLED_MS)
  expect(await installation.run('restore', 'finish')).toMatch(/There is no restore to finish/)
}

/** The other commands of the page, on the restored installation. */
async function maintain(installation: LocalInstallation, to: string): Promise<void> {
  await installation.run('backup', 'create')
  await installation.run('backup', 'create', '--incremental')
  expect(await installation.run('backup', 'list')).toMatch(/ incremental /)
  await installation.stop()
  expect(await installation.run('backup', 'verify')).toMatch(/\b0 are missing or wrong/)
  await installation.run('backup', 'verify', '--to', to)
  await installation.run('backup', 'prune', '--older-than', '30d', '--dry-run')
  await installation.run('backup', 'prune', '--older-than', '30d')
}

/** The commands of the documentation that were not run, without values of options. */
async function undocumented(run: ReadonlySet<string>): Promise<string[]> {
  const text = await readFile('docs/backup.md', 'utf8')
  const lines = text.matchAll(/^npx tenon ((?:backup|restore)\b[^#\n]*)/gm)
  return [...lines]
    .map(([, command = '']) => outlineOf(command.trim().split(/\s+/)))
    .filter((one) => !run.has(one))
}

/** How often a schedule has started its flow since the restore. */
const startsOf = async (at: Running, flow: string): Promise<number> => {
  const [row] = await asSuperuser<{ n: string }>(
    `select count(*) as n from tenon.executions e join tenon.flows f on f.id = e.flow_id
     where f.name = $1 and e.started_at > (select restored_at from public.tenon_installation)`,
    [flow],
    at,
  )
  return Number(row?.n)
}

function report(
  { before, after }: { before: number; after: number },
  { rtoMs, rpoMs }: { rtoMs: number; rpoMs: number },
): void {
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
  console.table([
    { what: 'writes acknowledged before the moment: all are there', figure: String(before) },
    { what: 'writes sent after the moment: none is there', figure: String(after) },
    {
      what: 'RPO: from the newest moment of the repository to the last acknowledged write before the kill (follow --every 1s)',
      figure: seconds(rpoMs),
    },
    {
      what: 'RTO: from the first command of the restore to the first accepted write, on an empty machine',
      figure: seconds(rtoMs),
    },
  ])
}
