/** Reruns examples from each of their steps; the output equals that of the first execution. */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { Executions, type Shown } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

async function publishExample(name: string, source?: string): Promise<string> {
  const as = workspace.operator
  const body = { name, source: source ?? (await readFile(`flows-dsl/examples/${name}.yaml`, 'utf8')) }
  const made = await call('POST', `${workspace.flows}/definitions`, { as, body })
  expect(made.body.diagnostics).toEqual([])
  await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as, body: {} })
  return name
}

/** Status and output, with generated ids replaced by `id`. */
const outputOf = (run: Shown) => JSON.stringify([run.status, run.output]).replaceAll(/[0-9a-f-]{36}/g, 'id')

interface Entry {
  readonly name: string
  readonly pointer: string
  readonly iteration: number
  readonly kind: string
}

/** Reruns an execution from each step it entered, all at once; `feed` sends events to reruns that listen again. */
async function fromEachStep(id: string, feed: (again: string) => Promise<void> = async () => {}) {
  const first = await executions.ended(id)
  const entries: Entry[] = first.steps.filter(({ pointer }: Entry) => !pointer.includes('/foreach'))
  const reruns = entries.map(async ({ name, pointer, iteration }) => {
    const made = await executions.send(id, 'rerun', { from: `${pointer}#${iteration}` })
    expect(made.status, `${name}: ${JSON.stringify(made.body)}`).toBe(201)
    const { plan, id: again } = made.body
    if (plan.again.some(({ kind }: Entry) => kind === 'listen')) await feed(again)
    const run = await executions.ended(again)
    const reusedSteps = run.steps.filter(({ reused }: { reused: boolean }) => reused)
    expect([name, reusedSteps.length]).toEqual([name, plan.reused.length])
    return [name, outputOf(run)]
  })
  expect(await Promise.all(reruns)).toEqual(entries.map(({ name }) => [name, outputOf(first)]))
  return entries.length
}

test('rerun of contact-import from each step: same output', async () => {
  const contacts = [{ email: 'ada@example.com' }, { email: 'nobody' }, { email: 'bob@example.com' }]
  const id = await executions.start(await publishExample('contact-import'), { input: { contacts } })
  expect(await fromEachStep(id)).toBeGreaterThanOrEqual(7)
})

test('rerun of sensor-batch from each step: same output', async () => {
  const feed = async (id: string) => {
    for (const [number, fahrenheit] of [68, 212].entries()) {
      const reading = { source: '/oven', id: `r${number}`, type: 'sensor.reading', data: { fahrenheit } }
      await executions.send(id, 'signal', { event: reading })
    }
    await executions.send(id, 'signal', { event: { source: '/oven', id: 'end', type: 'sensor.closed' } })
  }
  const id = await executions.start(await publishExample('sensor-batch'), { input: { sensor: '/oven' } })
  await feed(id)
  expect(await fromEachStep(id, feed)).toBe(3)
})

test('rerun of onboarding from each step: same output', async () => {
  const flow = (name: string, version: string, task: string) =>
    `document: { dsl: '1.0.3', namespace: examples, name: ${name}, version: '${version}' }\ndo: [{ a: { ${task} } }]`
  await publishExample('welcome-mail', flow('welcome-mail', '1.0.0', 'wait: PT0.1S'))
  await publishExample('training', flow('training', '1.2.0', 'set: { trainer: Bob }'))
  const input = { email: 'ada@example.com', plan: 'team' }
  const id = await executions.start(await publishExample('onboarding'), { input })
  expect(await fromEachStep(id)).toBe(5)
})
