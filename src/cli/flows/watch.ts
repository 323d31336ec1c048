/** `tenon flow run|watch`: an execution as it goes on, to its end; its output alone is on stdout. */

import type { Command } from 'commander'
import { type ApiClient, ApiError, framesOf } from '../client.ts'
import { flowsClient } from '../settings.ts'
import { jsonOf, printJson, verb, WORKSPACE } from '../verb.ts'
import type { StepNews } from './drawing.ts'
import { type Execution, flowNameOf, headOf, printFault, queueText } from './execution.ts'
import { type View, viewOf } from './view.ts'

const RETRY_MS = 500
/** Until a queue is asked for again. */
const QUEUE_MS = 2_000
/** For longer than that nobody waits for a platform that is away. */
const PATIENCE_MS = 30_000
const WAIT_S = 30

interface Event {
  readonly time: string
  readonly data: Omit<StepNews, 'at' | 'seq'> & { readonly seq?: number }
}

/** Shows an execution until it has ended. @returns the exit code: 0 where it completed */
export async function follow(workspace: string | undefined, id: string): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const execution = await client.get<Execution>(`${base}/executions/${id}`)
  const view = viewOf(headOf(execution, await flowNameOf(client, base, execution)), process.stderr)
  const leave = () => {
    process.stderr.write(`\n${id} goes on; \`tenon flow cancel ${id}\` ends it.\n`)
    process.exit(130)
  }
  process.once('SIGINT', leave)
  try {
    if (execution.queue !== undefined) await showQueue(workspace, id, view)
    await showAll(workspace, id, view)
  } finally {
    process.off('SIGINT', leave)
    view.end()
  }
  return finish(client, base, await client.get<Execution>(`${base}/executions/${id}`))
}

/** Until it has a place, or is cancelled: no event tells of those before it. */
async function showQueue(workspace: string | undefined, id: string, view: View): Promise<void> {
  for (;;) {
    const { client, base } = await flowsClient(workspace)
    const { queue } = await client.get<Execution>(`${base}/executions/${id}`)
    view.note(queue && queueText(queue))
    if (queue === undefined) return
    await new Promise((done) => setTimeout(done, QUEUE_MS))
  }
}

/** Comes back where the connection breaks, or a token runs out, and goes on where it was. */
async function showAll(workspace: string | undefined, id: string, view: View): Promise<void> {
  let [last, heardMs] = ['0', Date.now()]
  for (;;) {
    try {
      const { client, base } = await flowsClient(workspace)
      const headers = { 'last-event-id': last }
      const response = await client.send('GET', `${base}/executions/${id}/events`, { headers })
      for await (const { id: number = last, event, data } of framesOf(response)) {
        heardMs = Date.now()
        last = number
        const said = JSON.parse(data)
        if (event === undefined) tell(said, view)
        else if (event === 'gap') view.gap()
        else if (event === 'end' && said.code === 'ended') return
      }
    } catch (error) {
      if (error instanceof ApiError || Date.now() - heardMs > PATIENCE_MS) throw error
    }
    await new Promise((done) => setTimeout(done, RETRY_MS))
  }
}

function tell({ time, data }: Event, view: View): void {
  const { seq } = data
  if (seq === undefined) view.status(data.status)
  else view.step({ ...data, seq, at: time })
}

/** Says how it ended, and why. */
async function finish(client: ApiClient, base: string, execution: Execution): Promise<number> {
  process.stderr.write(`${execution.status}\n`)
  if (execution.status === 'completed') return printJson(execution.output)
  await printFault(client, base, execution, process.stderr)
  printJson(execution.error)
  return 1
}

interface RunOptions {
  readonly workspace?: string
  readonly input: string
  readonly version?: string
  readonly alias?: string
  readonly key?: string
  readonly wait?: boolean
  readonly detach?: boolean
}

/** Starts an execution, and watches it, waits for it, or leaves it alone. */
async function run(flow: string, options: RunOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const body = {
    input: jsonOf(options.input, 'The input'),
    ...(options.version !== undefined && { version: jsonOf(options.version, 'The version') }),
    ...(options.alias !== undefined && { alias: options.alias }),
    ...(options.key !== undefined && { correlation_key: options.key }),
  }
  const path = `${base}/definitions/${encodeURIComponent(flow)}/executions`
  const execution = await client.post<Execution>(path, body, options.wait ? WAIT_S : undefined)
  if (options.detach) {
    process.stdout.write(`${execution.id}\n`)
    return 0
  }
  const { id, temporal_url: url } = execution
  process.stderr.write(`${id}${url === undefined ? '' : `\n${url}`}\n`)
  if (!options.wait) return follow(options.workspace, id)
  await showAll(options.workspace, id, SILENT)
  return finish(client, base, await client.get<Execution>(`${base}/executions/${id}`))
}

const SILENT: View = { step() {}, status() {}, note() {}, gap() {}, end() {} }

export function watchVerbs(flows: Command): void {
  flows
    .command('run <flow>')
    .description('start a run and watch it to its end; its output alone is on stdout')
    .option(...WORKSPACE)
    .option('--input <json>', 'input of the run', '{}')
    .option('--version <n>', 'a published version; the newest where absent')
    .option('--alias <name>', 'the version that an alias means')
    .option('--key <key>', 'what you know the run by, such as an order')
    .option('--watch', 'show what happens (so it is where nothing else is said)')
    .option('--wait', 'wait for the end and show nothing before')
    .option('--detach', 'print the id and go')
    .action(verb(run))
  flows
    .command('watch <execution>')
    .description('watch a run to its end, from its beginning; exit code 0 where it completes')
    .option(...WORKSPACE)
    .action(verb((id: string, { workspace }: { workspace?: string }) => follow(workspace, id)))
}
