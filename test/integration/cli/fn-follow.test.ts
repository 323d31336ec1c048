/** `tenon fn logs --follow` of a function that is busier than a page of runs is long: no run is missed, none is printed twice. */

import { tmpdir } from 'node:os'
import { beforeAll, expect, test } from 'vitest'
import { operatorEnv } from '../../support/clients/cli.ts'
import { startCli } from '../../support/clients/cli-process.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let runs: FunctionRuns
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runs = new FunctionRuns(workspace)
})

const COUNT = 60

test('burst of runs between two looks, of which some are still running and one carries an older id: the lines of each, once', async () => {
  const id = await runs.deploy(
    'busy',
    `export default async ({ n, ms = 0 }, { log }) => {
      log('begins', n)
      if (ms > 0) await new Promise((done) => setTimeout(done, ms))
      log('ends', n)
    }`,
  )
  await runs.invoke(id, { n: 'first' })
  const followed = startCli(['fn', 'logs', 'busy', '--follow', '--limit', '5'], {
    env: operatorEnv(workspace),
    callerDir: tmpdir(),
  })
  const numbers = (word: string) =>
    [...followed.stdout().matchAll(new RegExp(` ${word} (\\w+)\\n`, 'g'))].map(([, n]) => n)
  try {
    await eventually(async () => (numbers('ends').includes('first') ? true : undefined), 20_000)
    await runs.start(id, { n: 'slow', ms: 2_500 })
    await Promise.all(Array.from({ length: COUNT }, (_, n) => runs.invoke(id, { n })))
    // As a run for an event that had to wait: its id has the time of the event.
    await asSuperuser(
      `with old as (select * from tenon.function_runs where function_id = $1 order by id limit 1)
        insert into tenon.function_runs (tenant_id, workspace_id, id, function_id, version, status, trigger, started_by, is_async,
          attempts, ended_at, error)
        select tenant_id, workspace_id, 'run_00000000000000000000000000', function_id, 1, 'failed', '{"kind":"event"}', 'test', true,
          1, now(), '{"code":"late","detail":"late"}' from old`,
      [id],
    )
    const expected = ['first', 'slow', ...Array.from({ length: COUNT }, (_, n) => String(n))].sort()
    await eventually(async () => (numbers('ends').length >= expected.length ? true : undefined), 20_000)
    await eventually(async () => (followed.stdout().includes('failed late') ? true : undefined))
    for (const word of ['begins', 'ends']) expect(numbers(word).sort()).toEqual(expected)
  } finally {
    await followed.stop()
  }
})
