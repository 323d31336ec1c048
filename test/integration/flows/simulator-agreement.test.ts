// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Runs generated flows on Temporal and in the simulator: same end, same steps. Also wide parallel loops. */

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { agrees, generatedFlows } from '../../conformance/flows/simulator-agreement.ts'
import { createEntry, Executions, type Shown } from '../../support/fixtures/executions.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'

const FLOWS = repeated(12, 40)
/** A multiple of a hundred; one in a hundred fails. */
const ITEMS = repeated(1_000, 5_000)

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

test('generated flows: Temporal and the simulator agree on end and steps', async () => {
  const runner = new FlowRunner(workspace, inject('tenon'))
  const ends: string[] = []
  for (const [n, source] of generatedFlows(FLOWS).entries())
    ends.push(await agrees(runner, `made-${n}`, source))
  // They do not all end alike.
  expect(new Set(ends).size).toBeGreaterThan(1)
})

/** Requests for these items are answered only once twenty are waiting, which proves that twenty run at once. */
const isHeld = (n: number) => n >= 400 && n < 500
const fails = (n: number) => n % 100 === 99

/**
 * Starts a server that is asked for items by number. @returns its address and the highest number of concurrent
 * requests
 */
async function openCountingServer() {
  const waiting = new Map<ServerResponse, number>()
  const counts = { most: 0 }
  const answer = (response: ServerResponse, n: number) => {
    if (waiting.delete(response)) response.writeHead(fails(n) ? 503 : 200).end()
  }
  const server = createServer(({ url = '' }, response) => {
    const n = Number(url.slice(1))
    waiting.set(response, n)
    counts.most = Math.max(counts.most, waiting.size)
    // An excess request has time to arrive.
    const soon = [...waiting].filter(([, each]) => !isHeld(each) || counts.most >= 20)
    for (const [each, of] of soon) setTimeout(() => answer(each, of), 20)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return { server, seen: counts, host: `127.0.0.1:${(server.address() as AddressInfo).port}` }
}

test('loop over many items, twenty at a time, one in a hundred fails: all items run, output in order', async () => {
  const as = workspace.operator
  const { server, seen: counts, host } = await openCountingServer()
  const egress = { workspace_id: workspace.workspaceId, egress: { allow: [host] } }
  expect((await call('POST', '/v1/services/configure', { as, body: egress })).status).toBe(200)
  const name = await new Executions(workspace).publish(`  - all:
      for: { each: n, in: '\${ [range(${ITEMS})] }', concurrency: 20, onError: continue }
      do:
        - ask:
            if: ($n >= 400 and $n < 500) or $n % 100 == 99
            call: http
            with: { method: post, endpoint: '\${ "http://${host}/\\($n)" }' }
        - put:
            call: collection.create
            with: { name: wide, document: { n: '\${ $n }' } }
            output: { as: '\${ .n }' }
      output: { as: '\${ map(if type == "number" then . else -1 end) }' }`)
  const id = await new Executions(workspace).start(name)
  const run = await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/executions/${id}`, { as })
    return body.ended_at === null ? undefined : body
  }, 170_000)
  server.close()
  expect(run.status, JSON.stringify(run.error)).toBe('completed')
  expect(run.output).toEqual(Array.from({ length: ITEMS }, (_, n) => (fails(n) ? -1 : n)))
  expect(counts.most).toBe(20)
  const { body } = await call('GET', '/v1/collections/wide/documents?page[size]=1&count=exact', {
    as: workspace.service,
  })
  expect(body.page.total).toBe(ITEMS * 0.99)
})

test('loop with onError set to fail: the execution faults, running items are cancelled, no other starts', async () => {
  const ledger = unique('c')
  const executions = new Executions(workspace)
  const noteCall = createEntry("'${ $n }'", ledger)
  const name = await executions.publish(`  - all:
      for: { each: n, in: '\${ [range(9)] }', concurrency: 3, onError: fail }
      do:
        - put: { ${noteCall} }
        - fuse: { if: $n == 1, listen: { to: { one: { with: { type: fuse } } } } }
        - rest: { if: $n != 1, wait: P1D }
        - no: { raise: { error: { type: 'https://example.com/no', status: 409, title: No } } }`)
  const id = await executions.start(name)
  const statuses = ({ steps }: Shown, of: string) =>
    steps.flatMap(({ name, status }: Shown) => (name === of ? [status] : [])).toSorted()
  await executions.until(
    id,
    (run) => statuses(run, 'rest').length === 2 && statuses(run, 'fuse').length === 3,
  )
  await executions.send(id, 'signal', { event: { type: 'fuse' } })
  const run = await executions.ended(id)
  expect(run).toMatchObject({ status: 'faulted', error: { status: 409 } })
  expect((await executions.ledger(ledger)).map(Number).toSorted()).toEqual([0, 1, 2])
  expect(statuses(run, 'rest')).toEqual(['cancelled', 'cancelled', 'skipped'])
})
