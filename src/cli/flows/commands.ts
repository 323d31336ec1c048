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
  addVerb(flows, 'skip <execution>', 'skip a held step', skip, [
    WORKSPACE,
    ['--step <step>', 'the step, if several are held'],
    ['--output <json>', `the output of the step: ${JSON_NOTATION}`],
  ])
  addVerb(
    flows,
    'patch <execution>',
    'patch the data of an execution that is paused or has a held step',
    patch,
    [
      WORKSPACE,
      ['--context <json>', `merge patch of $context: ${JSON_NOTATION}`],
      ['--step <step>', 'the step that gets the input, if several are held'],
      ['--input <json>', `input of the held step: ${JSON_NOTATION}`],
    ],
  )
  addVerb(flows, 'signal <execution> <type>', 'send an event to an execution that listens', signal, [
    WORKSPACE,
    ['--data <json>', `data of the event: ${JSON_NOTATION}`],
    ['--source <source>', 'source of the event'],
    ['--id <id>', 'id of the event; a repeated one has no effect'],
  ])
}

export function commandVerbs(flows: Command): void {
  dataVerbs(flows)
  addVerb(
    flows,
    'cancel <execution>',
    'cancel an execution; completed steps are compensated first',
    (id: string, options: WorkspaceOption) => send(id, 'cancel', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'pause <execution>',
    'start no further steps of an execution',
    (id: string, { reason, ...options }: WorkspaceOption & { reason?: string }) =>
      send(id, 'pause', reason === undefined ? {} : { reason }, options),
    [WORKSPACE, ['--reason <text>', 'reason']],
  )
  addVerb(
    flows,
    'resume <execution>',
    'continue a paused execution',
    (id: string, options: WorkspaceOption) => send(id, 'resume', {}, options),
    [WORKSPACE],
  )
  addVerb(
    flows,
    'retry <execution>',
    'retry a held step, or rerun a failed execution from the step that failed',
    retry,
    [WORKSPACE, ['--step <step>', 'the step, if several are held'], ['--detach', 'do not watch']],
  )
  addVerb(
    flows,
    'rerun <execution>',
    'repeat an execution, from the start or from a step, and watch it',
    rerun,
    [
      WORKSPACE,
      ['--from <step>', 'a task, a pointer, `pointer#iteration`, or `failed`'],
      ['--input <json>', `another input: ${JSON_NOTATION}`],
      ['--version <n>', 'another version of the flow'],
      ['--dry-run', 'only print the results that would be reused'],
      ['--detach', 'print the id, and do not watch'],
    ],
  )
}
