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
} from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'
import { Ledger } from './ledger.ts'
import { LocalInstallation, outlineOf } from './local-installation.ts'

const WRITERS = 4
const WRITING_MS = Number(process.env['TENON_RESTORE_SECONDS'] ?? 10) * 1_000
const TIMEOUT_MS = 900_000

/** Waits for a signal, and ends with it. */
const WAITS = '  - wait:\n      listen: { to: { one: { with: { type: go } } } }\n'

test(
  'restore: all data is deleted while clients write: what was acknowledged before the moment is there, and nothing later',
  async () => {
    const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
    const installation = await LocalInstallation.make(port)
    try {
      const at = await installation.start()
      const workspace = await createTestWorkspaceWithStorage(at)
      const purged = await createTestWorkspaceWithStorage(at)
      const executions = new Executions(workspace, at)
      const flow = await executions.publish(WAITS)
      const kept = await executions.start(flow)
      await executions.shown(kept, 'waiting')
      await installation.follow()
      // After the copy of Temporal, which does not know the schedule.
      const scheduled = await executions.publish('  - go:\n      set: { done: true }\n', {
        more: 'schedule: { every: { seconds: 1 } }\n',
      })
      const listened = await subscribeToEvents(workspace.service, 'topic=drill.*', {}, at)
      await call('POST', '/v1/events/publish', {
        as: workspace.service,
        at,
        body: { topic: 'drill.before', data: {} },
      })
      const eventId = await eventually(
        async () => listened.find(({ data }) => data.type === 'drill.before')?.id,
      )
      const ledger = new Ledger(workspace)
      const writing = Promise.all(Array.from({ length: WRITERS }, (_, n) => ledger.write(at, n)))
      const lost = await executions.start(flow)
      await executions.shown(lost, 'waiting')
      await pause(WRITING_MS / 2)
      const momentMs = Date.now()
      await pause(WRITING_MS / 4)
      const later = await executions.start(flow)
      const deleted = await call('DELETE', `/v1/tenants/${purged.tenantId}?grace_days=0`, {
        as: workspace.operator,
        at,
      })
      expect(deleted.status).toBe(202)
      await eventually(async () => {
        const { body } = await call('GET', deleted.headers.get('location') ?? '', {
          as: workspace.operator,
          at,
        })
        return body.state === 'succeeded' || undefined
      }, 120_000)
      await pause(2_000)
      await installation.kill()
      ledger.stop()
      await writing
      await installation.deleteData()

      const restoringMs = performance.now()
      console.log(await installation.run('restore', '--to', new Date(momentMs).toISOString()))
      const again = await installation.start()
      const rtoMs = performance.now() - restoringMs
      const counts = await ledger.compare(again, momentMs)
      expect(counts.before).toBeGreaterThan(0)
      expect(counts.after).toBeGreaterThan(0)
      const restored = new Executions(workspace, again)
      await restored.send(kept, 'signal', { event: { type: 'go' } })
      await restored.shown(kept, 'completed')
      expect(await restored.ended(lost, 120_000)).toMatchObject({
        ...{ status: 'faulted', error: { type: 'lost_in_restore' } },
      })
      expect(
        (await call('GET', `${workspace.flows}/executions/${later}`, { as: workspace.operator, at: again }))
          .status,
      ).toBe(404)
      await eventually(async () => {
        const path = `/v1/tenants/${purged.tenantId}`
        return (await call('GET', path, { as: workspace.operator, at: again })).status === 404 || undefined
      }, 120_000)
      const heard = await subscribeToEvents(
        workspace.service,
        'topic=drill.*',
        { 'last-event-id': eventId },
        again,
      )
      expect(heard.map(({ event }) => event)).toContain('gap')
      expect(await startsOf(again, scheduled)).toBe(0)
      expect(await installation.run('restore', 'finish')).toMatch(/1 triggers go on/)
      await eventually(async () => (await startsOf(again, scheduled)) > 0 || undefined)
      const { installation: id, ranges } = JSON.parse(await installation.run('backup', 'list', '--json'))
      await installation.run('backup', 'create')
      await installation.run('backup', 'create', '--incremental')
      expect(await installation.run('backup', 'list')).toMatch(/ incremental /)
      await installation.stop()
      expect(JSON.parse(await installation.run('backup', 'verify', '--json'))).toMatchObject({ faults: [] })
      await installation.run('backup', 'verify', '--to', new Date(momentMs).toISOString())
      await installation.run('backup', 'prune', '--older-than', '30d', '--dry-run')
      await installation.run('backup', 'prune', '--older-than', '30d')
      await expect(installation.run('restore', '--to', 'latest')).rejects.toThrow(`--yes=${id}`)

      const [{ until }] = ranges
      // What is pruned must not be what a moment needs.
      const checked = JSON.parse(await installation.run('backup', 'verify', '--json', '--to', until))
      expect(checked).toMatchObject({ faults: [] })
      await installation.run('restore', '--to', until, `--yes=${id}`)
      const latest = await installation.start()
      await ledger.compare(latest, Date.parse(until))
      expect(await undocumented(installation.commands)).toEqual([])
      console.table({
        ...counts,
        'RPO ms': Math.max(0, ledger.lastAckMs - Date.parse(until)),
        'RTO ms': Math.round(rtoMs),
      })
    } finally {
      closeSubscriptions()
      await installation.remove()
    }
  },
  TIMEOUT_MS,
)

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
