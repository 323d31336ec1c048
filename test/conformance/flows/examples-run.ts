/** Runs the examples on a platform: its functions behave as the mocks of their cases do. */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { call } from '../../support/fixtures/tenants.ts'
import type { FlowRunner } from './flow-runner.ts'

/** Defines the tests, for a workspace that exists when they begin. */
export function testExamples(runner: () => FlowRunner): void {
  /** Publishes an example and starts it. @returns the execution's id */
  async function started(name: string, input: object): Promise<string> {
    await runner().publish(name, await readFile(`flows-dsl/examples/${name}.yaml`, 'utf8'))
    return (await runner().start(name, input)).id
  }

  const ended = (id: string) => runner().ended(id)

  test('contact-import: imports contacts, and reports those without an address', async () => {
    const contacts = [{ email: 'ada@example.com' }, { email: 'nobody' }, { email: 'bob@example.com' }]
    const { output } = await ended(await started('contact-import', { contacts }))
    expect(output).toEqual({ imported: 2, refused: ['nobody is no e-mail address.'] })
    const kept = (await runner().documents('contacts')).map(({ email }: { email: string }) => email)
    expect(kept.toSorted()).toEqual(['ada@example.com', 'bob@example.com'])
  })

  test('nightly-report: sums up the orders of the day before, and stores the report', async () => {
    const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
    for (const [product, price, on] of [
      ['mug', 9, day],
      ['pen', 2, day],
      ['mug', 9, day],
      ['mug', 9, '2020-01-01'],
    ]) {
      const { at, workspace } = runner()
      const body = { product, price, day: on }
      await call('POST', '/v1/collections/orders/documents', { at, as: workspace.service, body })
    }
    const { output } = await ended(await started('nightly-report', {}))
    expect(output).toEqual({ count: 3, revenue: 20, best: 'mug', id: expect.any(String) })
    expect(await runner().documents('reports')).toMatchObject([{ count: 3, revenue: 20, best: 'mug' }])
  })

  test('signup: an address that exists: is reported', async () => {
    const { output } = await ended(await started('signup', { name: 'ada', age: 36 }))
    expect(output).toEqual({ id: expect.any(String) })
    const again = await runner().start('signup', { name: 'ada', age: 36 })
    expect(await ended(again.id)).toMatchObject({ status: 'faulted', error: { status: 409 } })
  })

  test('sensor-batch: collects readings until the batch is closed', async () => {
    const id = await started('sensor-batch', { sensor: '/oven' })
    const signal = (event: object) =>
      runner().call('POST', `${runner().workspace.flows}/executions/${id}/signal`, { event })
    for (const [number, fahrenheit] of [68, 212].entries()) {
      await signal({ source: '/oven', id: `r${number}`, type: 'sensor.reading', data: { fahrenheit } })
    }
    await signal({ source: '/oven', id: 'end', type: 'sensor.closed' })
    expect(await ended(id)).toMatchObject({ status: 'completed', output: { count: 2, hottest: 100 } })
  })

  test('moderation: a function rates a comment, which is published', async () => {
    const source =
      'export default ({ text }: { text: string }) => ({ toxicity: text === "Lovely!" ? 0.1 : 1 })'
    const body = { workspace_id: runner().workspace.workspaceId, name: 'judge-comment', source }
    expect((await runner().call('POST', '/v1/functions', body)).status).toBe(201)
    const { output } = await ended(await started('moderation', { text: 'Lovely!' }))
    expect(output).toEqual({ published: expect.any(String) })
    expect(await runner().documents('comments')).toMatchObject([{ text: 'Lovely!' }])
  })

  test('onboarding: one flow welcomes a customer, and another trains it', async () => {
    const flow = (name: string, version: string, task: string) =>
      `document: { dsl: '1.0.3', namespace: examples, name: ${name}, version: '${version}' }\ndo: [{ a: { ${task} } }]`
    await runner().publish('welcome-mail', flow('welcome-mail', '1.0.0', 'wait: PT0.1S'))
    await runner().publish('training', flow('training', '1.2.0', 'set: { trainer: Bob }'))
    const { output } = await ended(await started('onboarding', { email: 'ada@example.com', plan: 'team' }))
    expect(output).toEqual({ account: expect.any(String), trainer: 'Bob' })
  })
}
