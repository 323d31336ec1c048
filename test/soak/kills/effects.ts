/** Executions of flows and runs of functions of the kill drill, and what is left of them in the end. */

import { setTimeout as pause } from 'node:timers/promises'
import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'
import type { Drill } from './drill.ts'
import { listAll } from './writers.ts'

const START_EVERY_MS = 500
const ENDED_WITHIN_MS = 180_000

/** A flow with a local call, a call by an activity, a timer between, and the third at its end. */
const TASKS = ['first', 'second', 'third']
const flowOf = (entry: (at: string) => string) => `  - first: { ${entry('first')} }
  - second: { ${entry('second')}, metadata: { tenon: { local: false } } }
  - rest: { wait: { milliseconds: 300 } }
  - third: { ${entry('third')} }
`
/** A run makes a document, and tells a server outside if there is one. */
const FUNCTION = `export default async ({ n, outside }, { tenon }) => {
  if (outside) await fetch(outside, { method: 'POST', body: String(n) })
  await tenon.collections.create('runs', { n })
  return n
}`

/** Starts something every half second until the drill is over. @returns the id of each that was acknowledged, by number */
async function startMany(
  drill: Drill,
  start: (n: number) => ReturnType<Drill['answered']>,
  what: string,
): Promise<Map<number, string>> {
  const started = new Map<number, string>()
  for (let n = 0; !drill.isOver; n++) {
    const reply = await start(n)
    if (drill.expect(reply, [200, 201, 202], `start ${what} ${n}`)) started.set(n, reply.body.id)
    await pause(START_EVERY_MS)
  }
  drill.count(`${what} started`, started.size)
  return started
}

/** A server outside that counts what runs tell it. */
export interface Outside {
  /** As processes of the platform reach it. */
  readonly host: string
  /** The numbers of the runs that have told it, in order. */
  told(): readonly number[]
}

export interface Effects {
  readonly flow: string
  readonly functionId: string
  readonly outside?: Outside
}

export async function publishEffects(drill: Drill, outside?: Outside): Promise<Effects> {
  const { workspaceId: workspace_id, operator: as } = drill.workspace
  const entry = (at: string) => createEntry(`'\${ "\\($workflow.input.n) ${at}" }'`, 'effects')
  const flow = await new Executions(drill.workspace, drill.at).publish(flowOf(entry))
  const allowed = outside === undefined ? [] : [outside.host]
  if (outside !== undefined) await configure(drill.workspace, { egress: { allow: allowed } }, drill.at)
  const deployed = await drill.answered('POST', '/v1/functions', {
    as,
    body: { workspace_id, name: 'effect', source: FUNCTION, config: { egress: allowed } },
  })
  drill.expect(deployed, [201], 'deploy')
  return { flow, functionId: deployed.body.id, ...(outside !== undefined && { outside }) }
}

export const startFlows = (drill: Drill, { flow }: Effects) =>
  startMany(
    drill,
    (n) => {
      const path = `${drill.workspace.flows}/definitions/${flow}/executions`
      return drill.answered('POST', path, {
        as: drill.workspace.operator,
        key: `flow-${n}`,
        body: { input: { n } },
      })
    },
    'executions',
  )

export const startFunctions = (drill: Drill, { functionId, outside }: Effects) =>
  startMany(
    drill,
    (n) => {
      const headers = { prefer: 'respond-async' }
      return drill.answered('POST', `/v1/functions/${functionId}/invoke`, {
        key: `run-${n}`,
        body: { n, ...(outside !== undefined && { outside: `http://${outside.host}/` }) },
        headers,
      })
    },
    'function runs',
  )

/** Each execution completes, and has made each of its documents once. */
export async function compareFlows(drill: Drill, started: ReadonlyMap<number, string>): Promise<void> {
  for (const [n, id] of started) {
    const { status } = await endOf(drill, `${drill.workspace.flows}/executions/${id}`)
    if (status !== 'completed') drill.find(`execution ${n} ${id}: ${status}`, 'lost')
  }
  const expected = [...started.keys()].flatMap((n) => TASKS.map((at) => `${n} ${at}`))
  const stored = await listAll(drill, '/v1/collections/effects/documents')
  const made = [...stored.values()].map(({ entry }) => String(entry))
  const { missing, more } = difference(expected, made)
  if (missing.length > 0) drill.find(`effects of executions: missing [${missing.join(', ')}]`, 'lost')
  if (more.length > 0) drill.find(`effects of executions: too many [${more.join(', ')}]`, 'doubled')
  drill.count('effects of executions', made.length)
}

/** Each run has one outcome: a completed one has made its document and told the server outside once, one that was cut off at most once. */
export async function compareFunctions(
  drill: Drill,
  { functionId, outside }: Effects,
  started: ReadonlyMap<number, string>,
): Promise<void> {
  const stored = await listAll(drill, '/v1/collections/runs/documents')
  const made = [...stored.values()].map(({ n }) => Number(n))
  for (const [n, id] of started) {
    const { status, error } = await endOf(drill, `/v1/functions/${functionId}/runs/${id}`)
    drill.count(`function runs ${status} ${error?.code ?? ''}`)
    const ended = { status, ofRun: `run ${n} ${id} is ${status}` }
    for (const [effect, all] of Object.entries({
      documents: made,
      ...(outside && { requests: outside.told() }),
    }))
      compareCount(drill, ended, effect, all.filter((one) => one === n).length)
  }
  const unknown = made.filter((n) => !started.has(n))
  if (unknown.length > 0)
    drill.find(`runs whose start was not acknowledged made documents: ${unknown.join(' ')}`, 'doubled')
}

function compareCount(
  drill: Drill,
  { status, ofRun }: { status: string; ofRun: string },
  effect: string,
  count: number,
): void {
  drill.count(`${effect} of runs`, count)
  const isRight = count === 1 || (count === 0 && status !== 'completed')
  if (!isRight) drill.find(`${ofRun} and made ${count} ${effect}`, count === 0 ? 'lost' : 'doubled')
}

async function endOf(drill: Drill, path: string) {
  const ended = eventually(async () => {
    const { body } = await drill.answered('GET', path, { as: drill.workspace.operator })
    return typeof body.ended_at === 'string' ? body : undefined
  }, ENDED_WITHIN_MS)
  return ended.catch(() => ({ status: `not ended within ${ENDED_WITHIN_MS / 1_000} s` }))
}

function difference(expected: readonly string[], made: readonly string[]) {
  const missing = expected.filter((one) => !made.includes(one))
  const more = made.filter((one, at) => !expected.includes(one) || made.indexOf(one) !== at)
  return { missing, more }
}
