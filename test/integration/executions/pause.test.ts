// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Pauses executions, changes their data while paused, and resumes them. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'
const goSignal = { event: { type: 'go', data: 1 } }

describe('paused execution', () => {
  test('event arrives: starts no further task, shows the reason; resume continues where it stopped', async () => {
    const ledger = unique('c')
    const id = await executions.start(
      await executions.publish(`${LISTEN}\n  - a: { ${createEntry('a', ledger)} }`),
    )
    await executions.shown(id, 'waiting')
    const paused = await executions.send(id, 'pause', { reason: 'The prices are wrong.' })
    expect(paused).toMatchObject({
      status: 200,
      body: {
        status: 'suspended',
        suspended_because: 'paused',
        pause_reason: 'The prices are wrong.',
        ended_at: null,
      },
    })
    expect((await executions.send(id, 'signal', goSignal)).status).toBe(202)
    // The step that received the event completes; the next step is entered but calls nothing.
    await executions.until(id, ({ steps }) =>
      steps.some((step: { status: string }) => step.status === 'completed'),
    )
    expect(await executions.read(id)).toMatchObject({ status: 'suspended', suspended_because: 'paused' })
    expect(await executions.ledger(ledger)).toEqual([])
    const resumed = await executions.send(id, 'resume')
    expect(resumed.body).toMatchObject({ pause_reason: null })
    expect(await executions.ended(id)).toMatchObject({ status: 'completed', suspended_because: null })
    expect(await executions.ledger(ledger)).toEqual(['a'])
  })

  test('pause or resume repeated: no effect; after the end all commands are refused with 409', async () => {
    const id = await executions.start(await executions.publish(LISTEN))
    await executions.shown(id, 'waiting')
    expect((await executions.send(id, 'resume')).body).toMatchObject({
      status: 'waiting',
      suspended_because: null,
    })
    await executions.send(id, 'pause', { reason: 'first' })
    expect(await executions.send(id, 'pause', { reason: 'second' })).toMatchObject({
      status: 200,
      body: { status: 'suspended', pause_reason: 'first' },
    })
    await executions.send(id, 'resume')
    expect(await executions.read(id)).toMatchObject({ status: 'waiting', suspended_because: null })
    await executions.send(id, 'signal', goSignal)
    await executions.shown(id, 'completed')
    for (const command of ['pause', 'resume', 'patch-data'])
      expect(
        await executions.send(id, command, command === 'patch-data' ? { context: {} } : {}),
      ).toMatchObject({
        status: 409,
        body: { code: 'state_conflict', detail: 'The execution has ended.' },
      })
  })

  test('concurrent pause and resume commands: the execution completes and shows a consistent state', async () => {
    const id = await executions.start(await executions.publish(LISTEN))
    await executions.shown(id, 'waiting')
    const commands = Array.from({ length: 10 }, (_, n) => (n % 2 === 0 ? 'pause' : 'resume'))
    await Promise.all(commands.map((command) => executions.send(id, command)))
    const { suspended_because } = await executions.read(id)
    await executions.send(id, 'signal', goSignal)
    // A paused execution that has only computing left still completes: computing starts nothing outside.
    expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
    expect([null, 'paused']).toContain(suspended_because)
  })

  test('pause longer than a timeout: the timeout does not run while paused', async () => {
    const limited = LISTEN.replace(/ }$/, ', timeout: { after: PT2S } }')
    const id = await executions.start(await executions.publish(limited))
    await executions.shown(id, 'waiting')
    await executions.send(id, 'pause')
    const at = Date.now()
    await executions.until(id, () => Date.now() > at + 2_500)
    await executions.send(id, 'resume')
    await executions.send(id, 'signal', goSignal)
    expect(await executions.ended(id)).toMatchObject({ status: 'completed' })
  })

  test('cancel: ends the pause, compensates, ends cancelled', async () => {
    const ledger = unique('c')
    const id = await executions.start(
      await executions.publish(
        `  - a: { ${createEntry('a', ledger)}, compensate: [{ u: { ${createEntry('undone', ledger)} } }] }\n${LISTEN}`,
      ),
    )
    await executions.shown(id, 'waiting')
    await executions.send(id, 'pause')
    expect((await executions.send(id, 'cancel')).status).toBe(202)
    expect(await executions.ended(id)).toMatchObject({ status: 'cancelled', suspended_because: null })
    expect(await executions.ledger(ledger)).toEqual(['a', 'undone'])
  })
})

describe('patch-data', () => {
  const CONTEXT = `  - a: { set: { n: 1 }, export: { as: '\${ { price: 100, gone: true } }' } }
${LISTEN}
  - b: { set: { seen: '\${ $context }' } }`

  test('merge patch of the context: refused with 409 while running, applied while paused', async () => {
    const id = await executions.start(await executions.publish(CONTEXT))
    await executions.shown(id, 'waiting')
    const patch = { context: { price: 90, gone: null } }
    expect(await executions.send(id, 'patch-data', patch)).toMatchObject({
      status: 409,
      body: { detail: expect.stringContaining('pause it first') },
    })
    await executions.send(id, 'pause')
    expect(await executions.send(id, 'patch-data', patch)).toMatchObject({
      status: 200,
      body: { suspended_because: 'paused' },
    })
    await executions.send(id, 'resume')
    await executions.send(id, 'signal', goSignal)
    expect(await executions.ended(id)).toMatchObject({ output: { seen: { price: 90 } } })
  })

  test('input of a held step: replaced, and the retried step completes with it', async () => {
    const find = "find: { call: collection.get, with: { name: '${ .in }', id: '${ .id }' } }"
    const flow = await executions.publish(`  - ${find}`, { more: 'onFault: hold\n' })
    const document = await call('POST', '/v1/collections/things/documents', {
      as: workspace.service,
      body: { name: 'lamp' },
    })
    const id = await executions.start(flow, {
      input: { in: 'things', id: '0198c0de-0000-7000-8000-000000000000' },
    })
    expect(await executions.shown(id, 'suspended')).toMatchObject({ suspended_because: 'held' })
    expect(await executions.send(id, 'patch-data', {})).toMatchObject({ status: 400 })
    expect(await executions.send(id, 'patch-data', { step: 'nobody', input: {} })).toMatchObject({
      status: 409,
    })
    const big = { step: 'find', input: 'x'.repeat(4_300_000) }
    expect(await executions.send(id, 'patch-data', big)).toMatchObject({ status: 413 })
    const large = { step: 'find', input: { text: 'x'.repeat(3_000_000) } }
    expect(await executions.send(id, 'patch-data', large)).toMatchObject({ status: 200 })
    const input = { in: 'things', id: document.body.id }
    expect(await executions.send(id, 'patch-data', { step: 'find', input })).toMatchObject({ status: 200 })
    expect((await executions.send(id, 'retry-step')).status).toBe(200)
    expect(await executions.ended(id)).toMatchObject({ status: 'completed', output: { name: 'lamp' } })
  })

  test('pause, resume and patch-data: written to the audit log', async () => {
    const { body } = await call('GET', `/v1/audit?tenant_id=${workspace.tenantId}&page[size]=200`, {
      as: workspace.operator,
    })
    const names = body.data.map(({ operation }: { operation: string }) => operation)
    expect(names).toEqual(
      expect.arrayContaining(['execution.pause', 'execution.resume', 'execution.patch_data']),
    )
  })
})
