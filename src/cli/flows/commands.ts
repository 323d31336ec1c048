/** `tenon flow cancel|pause|resume|retry|rerun|skip|patch|signal`: commands to an execution. */

import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument } from '../json-argument.ts'
import { flowsClient } from '../settings.ts'
import { addVerb, printJson, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import type { Execution } from './execution.ts'
import { follow } from './watch.ts'

/** Sends a command, and prints the status of the execution afterwards. */
async function send(
  id: string,
  command: string,
  body: object,
  { workspace }: WorkspaceOption,
): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const { status } = await client.post<Execution>(`${base}/executions/${id}/${command}`, body)
  process.stdout.write(`${id} ${status}\n`)
  return 0
}

interface RerunOptions extends WorkspaceOption {
  readonly from?: string
  readonly step?: string
  readonly input?: string
  readonly version?: string
  readonly dryRun?: boolean
  readonly detach?: boolean
}

/** Retries a held step in the same execution; if that has ended, reruns it from the failed step. */
async function retry(id: string, options: RerunOptions): Promise<number> {
  const { client, base } = await flowsClient(options.workspace)
  const { ended_at } = await client.get<Execution>(`${base}/executions/${id}`)
  if (ended_at !== null) return rerun(id, { from: 'failed', ...options })
  const { step } = options
  await client.post(`${base}/executions/${id}/retry-step`, step === undefined ? {} : { step })
  return options.detach ? 0 : follow(options.workspace, id)
}

/** Repeats an execution, and watches the new one. */
async function rerun(id: string, options: RerunOptions): Promise<number> {
  const { from, input, version, dryRun, workspace } = options
  const { client, base } = await flowsClient(workspace)
  const body = {
    ...(from !== undefined && { from }),
    ...(input !== undefined && { input: await jsonArgument(input, 'The input') }),
    ...(version !== undefined && { version: Number(version) }),
    ...(dryRun && { dry_run: true }),
  }
  const execution = await client.post<Execution & { plan?: unknown }>(`${base}/executions/${id}/rerun`, body)
  if (dryRun) return printJson(execution.plan)
  if (options.detach) {
    process.stdout.write(`${execution.id}\n`)
    return 0
  }
  process.stderr.write(`${execution.id}\n`)
  return follow(workspace, execution.id)
}

interface SkipOptions extends WorkspaceOption {
  readonly step?: string
  readonly output?: string
}

async function skip(id: string, { step, output, ...options }: SkipOptions): Promise<number> {
  const body = {
    ...(step !== undefined && { step }),
    ...(output !== undefined && { output: await jsonArgument(output, 'The output') }),
  }
  return send(id, 'skip-step', body, options)
}

interface PatchOptions extends WorkspaceOption {
  readonly context?: string
  readonly step?: string
  readonly input?: string
}

async function patch(id: string, { context, step, input, ...options }: PatchOptions): Promise<number> {
  const body = {
    ...(context !== undefined && { context: await jsonArgument(context, 'The context') }),
    ...(step !== undefined && { step }),
    ...(input !== undefined && { input: await jsonArgument(input, 'The input') }),
  }
  return send(id, 'patch-data', body, options)
}

interface SignalOptions extends WorkspaceOption {
  readonly data?: string
  readonly source?: string
  readonly id?: string
}

/** Sends a CloudEvent to one execution, and prints its id. */
async function signal(id: string, type: string, options: SignalOptions): Promise<number> {
  const { data, source, id: eventId, workspace } = options
  const event = {
    type,
    ...(data !== undefined && { data: await jsonArgument(data, 'The data') }),
    ...(source !== undefined && { source }),
    ...(eventId !== undefined && { id: eventId }),
  }
  const { client, base } = await flowsClient(workspace)
  const sent = await client.post<{ id: string }>(`${base}/executions/${id}/signal`, { event })
  process.stdout.write(`${sent.id}\n`)
  return 0
}

/** Verbs that change the data or the steps of an execution. */
function dataVerbs(flows: Command): void {
  addVerb(flows, 'skip <execution>', 'Skip a held step.', skip, [
    WORKSPACE,
    ['--step <step>', 'Name of the step. Required if several steps are held.'],
    ['--output <json>', `Output of the step: ${JSON_NOTATION}.`],
  ])
  addVerb(
    flows,
    'patch <execution>',
    'Patch the data of an execution that is paused or has a held step.',
    patch,
    [
      WORKSPACE,
      ['--context <json>', `Merge patch of $context: ${JSON_NOTATION}.`],
      ['--step <step>', 'Name of the step that gets the input. Required if several steps are held.'],
      ['--input <json>', `Input of the held step: ${JSON_NOTATION}.`],
    ],
  )
  addVerb(flows, 'signal <execution> <type>', 'Send an event to an execution that listens.', signal, [
    WORKSPACE,
    ['--data <json>', `Data of the event: ${JSON_NOTATION}.`],
    ['--source <source>', 'Source of the event.'],
    ['--id <id>', 'Id of the event. A second event with the same id has no effect.'],
  ])
}

export function commandVerbs(flows: Command): void {
  dataVerbs(flows)
  addVerb(
    flows,
    'cancel <execution>',
    'Cancel an execution. Completed steps are compensated first.',
    (id: string, options: WorkspaceOption) => send(id, 'cancel', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'pause <execution>',
    'Pause an execution. It starts no further steps until it is resumed.',
    (id: string, { reason, ...options }: WorkspaceOption & { reason?: string }) =>
      send(id, 'pause', reason === undefined ? {} : { reason }, options),
    [WORKSPACE, ['--reason <text>', 'Reason of the pause.']],
  )
  addVerb(
    flows,
    'resume <execution>',
    'Resume a paused execution.',
    (id: string, options: WorkspaceOption) => send(id, 'resume', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'retry <execution>',
    'Retry a held step, or rerun a failed execution from the step that failed.',
    retry,
    [
      WORKSPACE,
      ['--step <step>', 'Name of the step. Required if several steps are held.'],
      ['--detach', 'Do not watch the execution.'],
    ],
  )
  addVerb(
    flows,
    'rerun <execution>',
    'Repeat an execution from its start or from a step, and watch it.',
    rerun,
    [
      WORKSPACE,
      ['--from <step>', 'First step that runs again: a task, a pointer, `pointer#iteration`, or `failed`.'],
      ['--input <json>', `Another input of the execution: ${JSON_NOTATION}.`],
      ['--version <n>', 'Another version of the flow.'],
      ['--dry-run', 'Print the results that would be reused, and start nothing.'],
      ['--detach', 'Print the id of the execution, and do not watch it.'],
    ],
  )
}
