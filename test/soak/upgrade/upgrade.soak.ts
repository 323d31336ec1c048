/**
 * Upgrades under load: two APIs behind a balancer and two workers go from release 0.1.0 to this build and to the next one, which both migrate
 * the database, and back again, one process after the other, while clients write and executions and runs are alive; then a ledger of what
 * was acknowledged is compared with what is there. `npm run test:upgrade`.
 */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { DERIVED, deriveSecret } from '../../../src/infra/crypto/secrets.ts'
import { asSuperuser, createTestWorkspaceWithStorage, eventually } from '../../support/fixtures/tenants.ts'
import { type Balancer, startBalancer } from '../../support/servers/balancer.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { expectInvariants } from '../../support/stack/invariants.ts'
import type { OwnPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { startWorker } from '../../support/stack/worker-process.ts'
import type { Drill } from '../kills/drill.ts'
import { drillBeside, TIMEOUT_MS } from '../kills/load.ts'
import { type Programs, releaseSources, type Sources, sourcesWith, tenonOf } from './builds.ts'
import { OpenWork } from './open-work.ts'

/** At a rate that the machine bears: no request may fail. */
const WRITERS = 2
const BETWEEN_MS = 10_000
/** No process hangs in this drill: one that is slow is not one that is away. */
const PROBE_MS = 30_000
/** Seconds in which the balancer notices that a process drains. */
const DRAIN_DELAY = { TENON_DRAIN_DELAY: '5' }

/** What a later release could add: a column, a table, and an index that is built beside writes. */
const NEXT = {
  'infra/postgres/migrations/9001-drill.sql': `-- Serves builds from 0.1.0 on.
alter table tenon.executions add column drill text;
alter table tenon.function_runs add column drill text not null default 'none';
create table tenon.drill (tenant_id text not null default tenon.tenant(), id text not null, primary key (tenant_id, id));
call tenon.allow('tenon_admin', 'tenon.drill', 'whole tenant', 'select, insert');
`,
  'infra/postgres/migrations/9002-drill-index.sql': `-- Serves builds from 0.1.0 on.
-- No transaction: can be repeated after it was cut off.
drop index concurrently if exists tenon.executions_drill;
create index concurrently executions_drill on tenon.executions (tenant_id, drill);
`,
}

/** The processes of the installation, which are replaced one after the other. */
class Fleet {
  readonly #at: Running
  #balancer: Balancer | undefined
  readonly #apis: { process: ChildProcess; readonly port: string }[] = []
  #workers: ChildProcess[] = []

  constructor(at: Running) {
    this.#at = at
  }

  /** @returns the balancer before the APIs */
  async start(build: Programs): Promise<Balancer> {
    const programs = patient(build)
    for (let n = 0; n < 2; n += 1) {
      this.#workers.push(await startWorker(this.#at, programs))
      const { process, at } = await startApi(DRAIN_DELAY, this.#at, undefined, programs)
      this.#apis.push({ process, port: new URL(at.url).port })
    }
    const urls = this.#apis.map(({ port }) => `http://127.0.0.1:${port}`)
    this.#balancer = await startBalancer(urls, PROBE_MS)
    await this.#allServe()
    return this.#balancer
  }

  /** As an orchestrator waits, before it ends the next process: the balancer may not have asked the new one yet. */
  async #allServe(): Promise<void> {
    await eventually(async () => this.#balancer?.ready().length === this.#apis.length || undefined)
  }

  /** Workers before APIs, as the page of upgrades says. */
  async replace(build: Programs): Promise<void> {
    const programs = patient(build)
    for (const [n, worker] of this.#workers.entries()) {
      await drain(worker)
      this.#workers[n] = await startWorker(this.#at, programs)
    }
    for (const api of this.#apis) {
      await drain(api.process)
      const settings = { ...DRAIN_DELAY, TENON_PORT: api.port }
      api.process = (await startApi(settings, this.#at, undefined, programs)).process
      await this.#allServe()
    }
  }

  kill(): void {
    for (const process of [...this.#workers, ...this.#apis.map((api) => api.process)]) process.kill('SIGKILL')
  }
}

/** A process of `npm start` has three seconds to end its requests; one that is replaced has more. */
const patient = (build: Programs): Programs => ({ ...build, env: { ...build.env, TENON_DRAIN_LIMIT: '60' } })

async function drain(process: ChildProcess): Promise<void> {
  const exited = once(process, 'exit')
  process.kill('SIGTERM')
  expect(await exited).toEqual([0, null])
}

/** A database that release 0.1.0 has made, in the servers of the platform, whose own processes and database have no part in the drill. */
async function releaseInstallation({ started }: OwnPlatform, release: Sources) {
  const { running, stack } = started
  await stack.supervisor.end('worker')
  await asSuperuser('create database of_release', [], running)
  const at = (url = '') => new URL('/of_release', url).href
  const databaseUrl = at(running.databaseUrl)
  // `tenon migrate` of Temporal needs no more than what its own platform has made.
  const env = { DATABASE_URL: databaseUrl, TENON_MASTER_KEY: running.masterKey, TEMPORAL_ADDRESS: '' }
  expect(await release.tenon(['migrate'], env)).toContain('infra/postgres/roles.sql')
  const DATABASE_APP_URL = at(running.env['DATABASE_APP_URL'])
  const login = {
    username: 'tenon_builder',
    password: deriveSecret(running.masterKey, DERIVED.builderPassword),
  }
  const DATABASE_BUILDER_URL = Object.assign(new URL(databaseUrl), login).href
  const processes = { ...running.env, DATABASE_APP_URL, DATABASE_BUILDER_URL }
  return { installation: { ...running, databaseUrl, env: processes }, env: { ...process.env, ...env } }
}

const STEPS = 7

async function prepare(own: OwnPlatform) {
  // One after the other: each takes both cores.
  const [now, next, release] = [await currentBuild(), await sourcesWith(NEXT), await releaseSources()]
  const [ofNext, ofRelease] = [await next.build(), await release.build()]
  const { installation, env } = await releaseInstallation(own, release)
  const fleet = new Fleet(installation)
  const balancer = await fleet.start(ofRelease)
  const at = { ...installation, url: balancer.url }
  return {
    at,
    workspace: await createTestWorkspaceWithStorage(at),
    writers: WRITERS,
    disturb: async (drill: Drill) => {
      const work = await OpenWork.begin(drill, STEPS)
      let steps = 0
      const go = async (name: string, step: () => Promise<unknown>) => {
        await pause(BETWEEN_MS)
        await work.before()
        await step()
        await work.after()
        drill.count(`${++steps} ${name}`)
      }
      await go('the migration of this build, under load', () => tenonOf('.')(['migrate'], env))
      await go('from release 0.1.0 to this build', () => fleet.replace(now))
      await go('the next migration, checked', async () =>
        expect(await next.tenon(['migrate', '--check'], env)).toMatch(
          /applies 2 files\.\n {2}\S+9001-drill\.sql: \d+ ms, locks tenon\.exec/,
        ),
      )
      await go('the next migration, under load', () => next.tenon(['migrate'], env))
      await go('to the next build', () => fleet.replace(ofNext))
      await go('back to this build, on the schema of the next', () => fleet.replace(now))
      await go('back to release 0.1.0, on the schema of the next', () => fleet.replace(ofRelease))
      expect(steps).toBe(STEPS)
      const drills = "select from public.tenon_migrations where name like '%drill%'"
      expect(await asSuperuser(drills, [], installation)).toHaveLength(2)
      await work.end()
    },
    faults: ({ counts }: Drill) => [
      ...balancer.errors,
      ...Object.entries(counts).flatMap(([what, times]) =>
        /^unanswered/.test(what) ? [`${times} requests were ${what}`] : [],
      ),
    ],
    end: async () => {
      // While there are workers, which repair what a fault has left.
      await expectInvariants(installation).finally(() => fleet.kill())
      await balancer.close()
      await Promise.all([next.remove(), release.remove()])
    },
  }
}

test(
  'upgrades and roll-backs of builds under load: what was acknowledged is there once, and no request fails',
  () => drillBeside('upgrades', prepare),
  TIMEOUT_MS,
)
