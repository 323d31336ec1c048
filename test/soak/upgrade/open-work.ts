/** Work of the upgrade drill that begins before a step and is alive while processes are replaced: it ends once, on whichever build. */

import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { eventually } from '../../support/fixtures/tenants.ts'
import type { Drill } from '../kills/drill.ts'
import { listAll } from '../kills/writers.ts'

const WAITS = '{ listen: { to: { one: { with: { type: go } } } } }'
const entryOf = (at: string) => createEntry(`'\${ "\\($workflow.input.n) ${at}" }'`, 'alive')

/** Writes, waits for a signal, and writes again. */
const ONCE = `  - begins: { ${entryOf('begins')} }\n  - waits: ${WAITS}\n  - ends: { ${entryOf('ends')} }\n`
/** Waits and writes until it is told to end. */
const roundsOf = (count: number) =>
  Array.from(
    { length: count },
    (_, n) => `  - waits${n}: ${WAITS}\n  - writes${n}: { ${entryOf(`round ${n}`)} }\n`,
  ).join('')

/** Longer than a worker takes to be replaced. */
const RUN_MS = 15_000
const SLOW = `export default async ({ n }, { tenon }) => {
  await tenon.collections.create('alive', { entry: n + ' run begins' })
  await new Promise((over) => setTimeout(over, ${RUN_MS}))
  await tenon.collections.create('alive', { entry: n + ' run ends' })
  return n
}`

interface Names {
  /** The flow of which one execution begins before each step. */
  readonly once: string
  readonly functionId: string
  /** The execution that is alive in all steps. */
  readonly all: string
}

export class OpenWork {
  readonly #drill: Drill
  readonly #executions: Executions
  readonly #names: Names
  /** Ids of what was begun: executions that wait for the end of the drill, and runs. */
  readonly #waiting: string[] = []
  readonly #runs: string[] = []
  readonly #expected: string[] = []
  #steps = 0

  private constructor(drill: Drill, executions: Executions, names: Names) {
    this.#drill = drill
    this.#executions = executions
    this.#names = names
  }

  /** Starts the execution that is alive in all steps. @param steps how many there will be */
  static async begin(drill: Drill, steps: number): Promise<OpenWork> {
    const executions = new Executions(drill.workspace, drill.at)
    const { workspaceId: workspace_id, operator: as } = drill.workspace
    const body = { workspace_id, name: 'slow', source: SLOW, config: { timeout: '2m' } }
    const deployed = await drill.answered('POST', '/v1/functions', { as, body })
    drill.expect(deployed, [201], 'deploy the slow function')
    const all = await executions.start(await executions.publish(roundsOf(steps)), { input: { n: 'all' } })
    const once = await executions.publish(ONCE)
    return new OpenWork(drill, executions, { once, functionId: deployed.body.id, all })
  }

  /** Before a step: an execution that waits until the end of the drill, and a run that takes as long as the replacement of a worker. */
  async before(): Promise<void> {
    const n = this.#steps
    const id = await this.#executions.start(this.#names.once, { input: { n } })
    this.#waiting.push(id)
    await this.#executions.shown(id, 'waiting')
    const run = await this.#drill.answered('POST', `/v1/functions/${this.#names.functionId}/invoke`, {
      key: `slow-${n}`,
      body: { n },
      headers: { prefer: 'respond-async' },
    })
    if (this.#drill.expect(run, [202], `start the slow run ${n}`)) this.#runs.push(run.body.id)
    const ofStep = ['begins', 'ends', 'run begins', 'run ends'].map((at) => `${n} ${at}`)
    this.#expected.push(...ofStep, `all round ${n}`)
  }

  /** After a step: the build that runs now takes the execution a round further. */
  async after(): Promise<void> {
    await this.#signal(this.#names.all)
    await eventually(async () => (await this.#written()).includes(`all round ${this.#steps}`) || undefined)
    this.#steps += 1
  }

  /** Lets everything end, and notes what has not ended well or has not happened once. */
  async end(): Promise<void> {
    for (const id of this.#waiting) await this.#signal(id)
    for (const id of [this.#names.all, ...this.#waiting]) {
      const { status } = await this.#executions.ended(id)
      this.#drill.count(`executions alive in steps: ${status}`)
      if (status !== 'completed') this.#drill.find(`execution ${id}: ${status}`)
    }
    for (const id of this.#runs) {
      const { status } = await eventually(async () => {
        const path = `/v1/functions/${this.#names.functionId}/runs/${id}`
        const { body } = await this.#drill.answered('GET', path, { as: this.#drill.workspace.operator })
        return typeof body.ended_at === 'string' ? body : undefined
      })
      this.#drill.count(`function runs alive in steps: ${status}`)
      if (status !== 'completed') this.#drill.find(`slow run ${id}: ${status}`)
    }
    const [expected, written] = [this.#expected.toSorted(), await this.#written()]
    if (JSON.stringify(written) !== JSON.stringify(expected))
      this.#drill.find(`work alive in steps: expected ${expected.join(', ')}; written ${written.join(', ')}`)
  }

  async #written(): Promise<string[]> {
    const stored = await listAll(this.#drill, '/v1/collections/alive/documents')
    return [...stored.values()].map(({ entry }) => String(entry)).toSorted()
  }

  async #signal(id: string): Promise<void> {
    const { status } = await this.#executions.send(id, 'signal', { event: { type: 'go' } })
    if (status >= 300) this.#drill.find(`signal to ${id}: ${status}`)
  }
}
