/**
 * Upgrades under load: two APIs behind a balancer and two workers go from release 0.1.0 to this build and to the next one, which migrates the
 * database, and back again, one process after the other, while clients write and executions and runs are under way; then a ledger of what
 * was acknowledged is compared with what is there. `npm run test:upgrade`.
 */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { asSuperuser, eventually } from '../../support/fixtures/tenants.ts'
import { startBalancer } from '../../support/servers/balancer.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { expectInvariants } from '../../support/stack/invariants.ts'
import type { OwnPlatform } from '../../support/stack/own-platform.ts'
import type { Running } from '../../support/stack/start.ts'
import { startWorker } from '../../support/stack/worker-process.ts'
import type { Drill } from '../kills/drill.ts'
import { drillBeside, TIMEOUT_MS } from '../kills/load.ts'
import { buildOf, buildWith, releaseCommit } from './builds.ts'

/** At a rate that the machine bears: no request may fail. */
const WRITERS = 2
const BETWEEN_MS = 10_000

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

interface Programs {
  readonly api: string
  readonly worker: string
  readonly env?: Readonly<Record<string, string>>
}

/** The processes of the installation, which are replaced one after the other. */
class Fleet {
  readonly #at: Running
  readonly #apis: { process: ChildProcess; readonly port: string }[] = []
  #workers: ChildProcess[] = []

  constructor(at: Running) {
    this.#at = at
  }

  get urls(): string[] {
    return this.#apis.map(({ port }) => `http://127.0.0.1:${port}`)
  }

  async start(build: Programs): Promise<void> {
    const programs = patient(build)
    for (let n = 0; n < 2; n += 1) {
      this.#workers.push(await startWorker(this.#at, programs))
      const { process, at } = await startApi({ TENON_DRAIN_DELAY: '2' }, this.#at, undefined, programs)
      this.#apis.push({ process, port: new URL(at.url).port })
    }
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
      const settings = { TENON_DRAIN_DELAY: '2', TENON_PORT: api.port }
      api.process = (await startApi(settings, this.#at, undefined, programs)).process
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

async function prepare({ started }: OwnPlatform) {
  const { running } = started
  const commit = await releaseCommit()
  if (commit === undefined)
    throw new Error('The history of the repository is missing: run `git fetch --unshallow`.')
  const [now, next] = [await currentBuild(), await buildWith(NEXT)]
  const release = await buildOf(commit)
  const fleet = new Fleet(running)
  await fleet.start(release)
  await started.stack.supervisor.end('worker')
  const balancer = await startBalancer(fleet.urls)
  await eventually(async () => (balancer.ready().length === 2 ? true : undefined))
  const migrate = (...args: string[]) =>
    next.tenon(['migrate', ...args], {
      ...running.env,
      ...{ DATABASE_URL: running.databaseUrl, TENON_MASTER_KEY: running.masterKey },
    })
  return {
    at: { ...running, url: balancer.url },
    writers: WRITERS,
    disturb: async (drill: Drill) => {
      const go = async (name: string, step: () => Promise<unknown>) => {
        await pause(BETWEEN_MS)
        await step()
        drill.count(name)
      }
      await go('1 from release 0.1.0 to this build', () => fleet.replace(now))
      await go('2 the next migration, checked', async () =>
        expect(await migrate('--check')).toMatch(
          /applies 2 files\.\n {2}\S+9001-drill\.sql: \d+ ms, locks tenon\.exec/,
        ),
      )
      await go('3 the next migration, under load', () => migrate())
      await go('4 to the next build', () => fleet.replace(next))
      await go('5 back to this build, on the schema of the next', () => fleet.replace(now))
      await go('6 back to release 0.1.0, on the schema of the next', () => fleet.replace(release))
      const applied = await asSuperuser(
        "select from public.tenon_migrations where name like '%drill%'",
        [],
        running,
      )
      expect(applied).toHaveLength(2)
      await pause(BETWEEN_MS)
    },
    end: async () => {
      // While there are workers, which repair what a fault has left.
      await expectInvariants(running).finally(() => fleet.kill())
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
