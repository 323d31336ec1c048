/** Metrics of a flow: executions by status, and durations of ended ones, over a window. */

import { expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

type Point = [string, number | null]

test('executions of one flow: counted by status and measured; those of another are not', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const [flow, other] = await Promise.all([
    executions.publish(
      '  - a: { raise: { error: { type: https://x.test/e, status: 500, title: t } }, if: .n == 0 }\n  - b: { wait: PT1H, if: .n == 1 }',
    ),
    executions.publish('  - a: { set: { x: 1 } }'),
  ])
  const started = await Promise.all([0, 1, 2, 2].map((n) => executions.start(flow, { input: { n } })))
  const [faulted = '', open = '', ...completed] = started
  await Promise.all([faulted, ...completed, await executions.start(other)].map((id) => executions.ended(id)))
  await executions.shown(open, 'waiting')

  const ask = (query: string) =>
    call('GET', `${workspace.flows}/definitions/${flow}/metrics?${query}`, { as: workspace.operator })
  const { body } = await ask('metric=executions&window=1h')
  const sumOf = (status: string) =>
    body.series
      .find(({ labels }: { labels: { status: string } }) => labels.status === status)
      .points.reduce((sum: number, [, value]: Point) => sum + (value ?? 0), 0)
  expect(['completed', 'faulted', 'cancelled', 'open'].map(sumOf)).toEqual([2, 1, 0, 1])
  expect(body).toMatchObject({ metric: 'executions', unit: 'executions', window: '1h' })

  const durations = (await ask('metric=duration&window=1h')).body.series
  for (const { points } of durations as { points: Point[] }[]) {
    const values = points.flatMap(([, value]) => (value === null ? [] : [value]))
    expect(values.length).toBeGreaterThan(0)
    expect(values.every((value) => value >= 0 && value < 60_000)).toBe(true)
  }
  expect((await ask('metric=executions&window=99999d')).status).toBe(400)
  expect((await ask('metric=cost&window=1h')).status).toBe(400)
})
