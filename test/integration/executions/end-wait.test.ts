// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `skip-step` ends a `wait` early. */

import { beforeAll, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let executions: Executions
beforeAll(async () => {
  executions = new Executions(await createTestWorkspace())
})

test('wait of 90 days that is skipped: continues at once with its input, and runs its own output filter', async () => {
  const id = await executions.start(
    await executions.publish(`  - a: { set: { n: 1 } }
  - rest: { wait: P90D, output: { as: '\${ { n: (.n + 1) } }' } }`),
  )
  await executions.until(id, ({ status }) => status === 'waiting')
  expect((await executions.send(id, 'skip-step', { output: { n: 7 } })).body).toMatchObject({
    status: 409,
    detail: 'A `wait` that is ended early yields its input: leave out `output`.',
  })
  expect((await executions.send(id, 'retry-step')).status).toBe(409)
  expect((await executions.send(id, 'skip-step', { step: 'rest' })).status).toBe(200)
  expect((await executions.ended(id)).output).toEqual({ n: 2 })
})

test('one of two waits: the other goes on; a step that does not wait for a time is refused', async () => {
  const id = await executions.start(
    await executions.publish(`  - both:
      fork:
        compete: true
        branches:
          - one: { wait: P1D, output: { as: '\${ 1 }' } }
          - two: { wait: P1D, output: { as: '\${ 2 }' } }
          - heard: { listen: { to: { one: { with: { type: never } } } } }`),
  )
  const { steps } = await executions.until(
    id,
    ({ status, steps }) => status === 'waiting' && steps.length === 4,
  )
  expect((await executions.send(id, 'skip-step')).body.detail).toMatch(/^Several steps wait/)
  const { pointer, iteration } = steps.find(({ name }: { name: string }) => name === 'heard')
  const heard = `${pointer}#${iteration}`
  expect((await executions.send(id, 'skip-step', { step: heard })).body.detail).toBe(
    'The step is not held, and does not wait for a time.',
  )
  expect((await executions.send(id, 'skip-step', { step: 'two' })).status).toBe(200)
  expect((await executions.ended(id)).output).toBe(2)
})

test('many waits ended at once, each while an activity starts: every command is carried out, though Temporal discards tasks', async () => {
  const flow = await executions.publish(`  - both:
      fork:
        compete: true
        branches:
          - late: { wait: P1D, output: { as: '\${ 1 }' } }
          - heard: { listen: { to: { one: { with: { type: never } } } } }`)
  const endWait = async () => {
    const id = await executions.start(flow)
    await executions.until(id, ({ status, steps }) => status === 'waiting' && steps.length === 3)
    const { status } = await executions.send(id, 'skip-step', { step: 'late' })
    return { status, output: (await executions.ended(id)).output }
  }
  const ended = await Promise.all(Array.from({ length: 30 }, endWait))
  expect(ended).toEqual(Array(30).fill({ status: 200, output: 1 }))
})
