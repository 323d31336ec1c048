/** `tenon flow publish|run|watch`; the other verbs of flows are in flows/. */

import type { Command } from 'commander'
import { type ApiClient, ApiError } from './client.ts'
import { checkVerbs } from './flows/check.ts'
import { faultsOf } from './flows/compiler.ts'
import { printFaults } from './flows/faults.ts'
import { initVerb } from './flows/init.ts'
import { place, read } from './flows/place.ts'
import { simulateVerb } from './flows/simulate.ts'
import { testVerb } from './flows/test.ts'
import { jsonOf, verb, WORKSPACE } from './verb.ts'

interface Flow {
  readonly id: string
  readonly name: string
  readonly source: string
}

interface Step {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly status: string
  readonly summary: string
}

export interface Execution {
  readonly id: string
  readonly status: string
  readonly output: unknown
  readonly error: unknown
  readonly steps?: readonly Step[]
  readonly temporal_url?: string
}

const ENDED = new Set(['completed', 'faulted', 'cancelled'])
const POLL_MS = 300

/** Creates or replaces the draft, and publishes it. */
async function publish(file: string, options: { workspace?: string }): Promise<number> {
  const { client, base } = await place(options.workspace)
  try {
    const { flow, version, sha256 } = await publishSource(client, base, await read(file))
    process.stdout.write(`${flow.name} v${version} ${sha256.slice(0, 12)} (${flow.id})\n`)
    return 0
  } catch (error) {
    printFaults(file, faultsOf(error))
    return 1
  }
}

interface Published {
  readonly flow: Flow
  readonly version: number
  readonly sha256: string
}

/** Finds the draft of the same name or makes it, and publishes. */
export async function publishSource(client: ApiClient, base: string, source: string): Promise<Published> {
  const flow = await putDraft(client, base, source)
  return {
    flow,
    ...(await client.post<Omit<Published, 'flow'>>(`${base}/definitions/${flow.id}/versions`, {})),
  }
}

async function putDraft(client: ApiClient, base: string, source: string): Promise<Flow> {
  try {
    return await client.post<Flow>(`${base}/definitions`, source)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
    const [, name = ''] = /^ {2}name: *['"]?([a-z0-9-]+)/m.exec(source) ?? []
    return client.call<Flow>('PUT', `${base}/definitions/${name}`, source)
  }
}

/** Starts an execution and watches it to its end. */
async function run(flow: string, options: { workspace?: string; input?: string }): Promise<number> {
  const { client, base } = await place(options.workspace)
  const input = jsonOf(options.input ?? '{}', 'The input')
  const execution = await client.post<Execution>(`${base}/definitions/${flow}/executions`, { input })
  process.stderr.write(`${execution.id}${execution.temporal_url ? `\n${execution.temporal_url}` : ''}\n`)
  return follow(client, base, execution.id)
}

async function watch(execution: string, options: { workspace?: string }): Promise<number> {
  const { client, base } = await place(options.workspace)
  return follow(client, base, execution)
}

/** Prints each change of a step as it comes, and the output alone on stdout. */
async function follow(client: ApiClient, base: string, id: string): Promise<number> {
  const shown = new Map<number, string>()
  for (;;) {
    const execution = await client.get<Execution>(`${base}/executions/${id}`)
    for (const step of execution.steps ?? []) {
      if (shown.get(step.seq) === step.status) continue
      shown.set(step.seq, step.status)
      process.stderr.write(`  ${step.status.padEnd(9)} ${step.name}  ${step.summary}\n`)
    }
    if (ENDED.has(execution.status)) return finish(execution)
    await new Promise((done) => setTimeout(done, POLL_MS))
  }
}

function finish(execution: Execution): number {
  process.stderr.write(`${execution.status}\n`)
  process.stdout.write(
    `${JSON.stringify(execution.status === 'completed' ? execution.output : execution.error, null, 2)}\n`,
  )
  return execution.status === 'completed' ? 0 : 1
}

export function flowVerbs(program: Command): void {
  const flows = program.command('flow').description('flows')
  initVerb(flows)
  checkVerbs(flows)
  simulateVerb(flows)
  testVerb(flows)
  flows
    .command('publish <file>')
    .description('make or replace the draft of that name, and publish it')
    .option(...WORKSPACE)
    .action(verb(publish))
  flows
    .command('run <flow>')
    .description('start a run and watch it to its end; its output alone is on stdout')
    .option(...WORKSPACE)
    .option('--input <json>', 'input of the run', '{}')
    .action(verb(run))
  flows
    .command('watch <execution>')
    .description('watch a run to its end')
    .option(...WORKSPACE)
    .action(verb(watch))
}
