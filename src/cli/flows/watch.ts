/** `tenon flow run|watch`: watches an execution to its end; only its output is on stdout. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { type ApiClient, ApiError, parseFrames } from '../client.ts'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { flowsClient } from '../settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import type { StepUpdate } from './drawing.ts'
import { type Execution, headOf, printFault, queueText, readFlowName } from './execution.ts'
import { type View, viewOf } from './view.ts'

const RETRY_MS = 500
/** Poll interval of the queue. */
const QUEUE_MS = 2_000
/** How long the stream is retried while the platform does not answer. */
const RETRY_BUDGET_MS = 30_000
const WAIT_S = 30

interface Event {
  readonly time: string
  readonly data: Omit<StepUpdate, 'at' | 'seq'> & { readonly seq?: number }
}

/** Shows an execution until it has ended. @returns the exit code: 0 if it completed */
export async function follow(workspace: string | undefined, id: string): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const execution = await client.get<Execution>(`${base}/executions/${id}`)
  const view = viewOf(headOf(execution, await readFlowName(client, base, execution)), process.stderr)
  const leave = () => {
    process.stderr.write(`\n${id} is still running. To end it: \`tenon flow cancel ${id}\`.\n`)
    process.exit(130)
  }
  process.once('SIGINT', leave)
  try {
    if (execution.queue !== undefined) await showQueue(workspace, id, view)
    await showEvents(workspace, id, view)
  } finally {
    process.off('SIGINT', leave)
    view.end()
  }
  return finish(client, base, id)
}

/** Shows the position in the queue until the execution gets a slot or is cancelled; no event reports the others in it. */
async function showQueue(workspace: string | undefined, id: string, view: View): Promise<void> {
  for (;;) {
    const { client, base } = await flowsClient(workspace)
    const { queue } = await client.get<Execution>(`${base}/executions/${id}`)
    view.waitingFor(queue && queueText(queue))
    if (queue === undefined) return
    await delay(QUEUE_MS)
  }
}

/** Shows events until the end. Resumes the stream if the connection breaks or the token expires. */
async function showEvents(workspace: string | undefined, id: string, view: View): Promise<void> {
  let [last, receivedMs] = ['0', Date.now()]
  for (;;) {
    try {
      const { client, base } = await flowsClient(workspace)
      const headers = { 'last-event-id': last }
      const response = await client.send('GET', `${base}/executions/${id}/events`, { headers })
      for await (const { id: number = last, event, data } of parseFrames(response)) {
        receivedMs = Date.now()
        last = number
        const message = JSON.parse(data)
        if (event === undefined) show(message, view)
        else if (event === 'gap') view.gap()
        else if (event === 'end' && message.code === 'ended') return
      }
    } catch (error) {
      if (error instanceof ApiError || Date.now() - receivedMs > RETRY_BUDGET_MS) throw error
    }
    await delay(RETRY_MS)
  }
}

function show({ time, data }: Event, view: View): void {
  const { seq } = data
  if (seq === undefined) view.status(data.status)
  else view.step({ ...data, seq, at: time })
}

/** Prints the status, and the output or the error. @returns the exit code */
async function finish(client: ApiClient, base: string, id: string): Promise<number> {
  const execution = await client.get<Execution>(`${base}/executions/${id}`)
  process.stderr.write(`${execution.status}\n`)
  if (execution.payloads === 'hidden')
    process.stderr.write(
      'Its payloads are hidden: you have not started it, and may not see those of others.\n',
    )
  if (execution.status === 'completed') return printJson(execution.output ?? null)
  await printFault(client, base, execution, process.stderr)
  printJson(execution.error)
  return 1
}

interface RunOptions extends WorkspaceOption {
  readonly input: string
  readonly version?: string
  readonly alias?: string
  readonly key?: string
  readonly wait?: boolean
  readonly detach?: boolean
}

/** Starts an execution, and watches it, waits for its end, or only prints its id. */
async function run(flow: string, options: RunOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const body = {
    input: await jsonArgument(options.input, 'The input'),
    ...(options.version !== undefined && { version: Number(options.version) }),
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
  await showEvents(options.workspace, id, SILENT)
  return finish(client, base, id)
}

const SILENT: View = { step() {}, status() {}, waitingFor() {}, gap() {}, end() {} }

export function watchVerbs(flows: Command): void {
  addVerb(
    flows,
    'run <flow>',
    'Start an execution and watch it until it ends. Prints only its output on stdout.',
    run,
    [
      WORKSPACE,
      ['--input <json>', `Input of the execution: ${JSON_NOTATION}.`, '{}'],
      ['--version <n>', 'Published version of the flow. Default: the newest.'],
      ['--alias <name>', 'Alias of the flow, instead of a version.'],
      ['--key <key>', 'Correlation key, such as the number of an order.'],
      ['--watch', 'Show the progress of the execution, unless --wait or --detach is set.'],
      ['--wait', 'Wait for the end of the execution without showing its progress.'],
      ['--detach', 'Print the id of the execution, and do not watch it.'],
    ],
  )
  addVerb(
    flows,
    'watch <execution>',
    'Watch an execution from its start to its end. The exit code is 0 if it completes.',
    (id: string, { workspace }: WorkspaceOption) => follow(workspace, id),
    [WORKSPACE],
  )
}
