/** `tenon flow steps`, and the data of steps for `tenon flow show --data`. */

import type { Command } from 'commander'
import type { ApiClient } from '../client.ts'
import { flowsClient } from '../settings.ts'
import { addVerb, printJson, printTable, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { errorText, timeText } from './drawing.ts'

/** A step as the pages of steps have it. */
export interface ListedStep {
  readonly id: string
  readonly name: string
  readonly kind: string
  /** Its pointer. */
  readonly task: string
  readonly iteration: number
  readonly summary: string
  readonly status: string
  readonly attempts: number
  readonly started_at: string
  readonly ended_at: string | null
  readonly error?: unknown
}

interface StepData extends ListedStep {
  readonly input?: unknown
  readonly arguments?: unknown
  readonly output?: unknown
  readonly truncated: readonly string[]
}

interface StepsOptions extends WorkspaceOption {
  readonly status?: string
  readonly task?: string
  readonly json?: boolean
}

/** Prints a line for each step. */
async function listSteps(id: string, { workspace, json, ...filters }: StepsOptions): Promise<number> {
  const { client, base } = await flowsClient(workspace)
  const steps = await stepsOf(client, base, id, filters)
  if (json) return printJson(steps)
  const rows = steps.map((step) => [
    `${step.name}#${step.iteration}`,
    step.status,
    String(step.attempts),
    step.started_at.slice(11, 23),
    step.ended_at === null ? '' : timeText(Date.parse(step.ended_at) - Date.parse(step.started_at)),
    step.error === undefined ? step.summary : errorText(step.error),
  ])
  printTable(['STEP', 'STATUS', 'ATTEMPTS', 'STARTED', 'LASTED', ''], rows)
  return 0
}

interface Filters {
  readonly status?: string | undefined
  readonly task?: string | undefined
  readonly iteration?: string | undefined
}

/** All steps of an execution that match. */
export function stepsOf(client: ApiClient, base: string, id: string, filters: Filters = {}) {
  const query = Object.entries(filters).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return client.list<ListedStep>(`${base}/executions/${id}/steps?${new URLSearchParams(query)}`)
}

/** Data of more steps would take too many requests. */
const SHOWN_MAX = 50

/**
 * Prints input, arguments and output of steps.
 * @param named a task by name or pointer, or one of its entries such as `send#7`; default: all steps
 */
export async function printStepData(
  { client, base }: { client: ApiClient; base: string },
  id: string,
  named: string | undefined,
): Promise<void> {
  const [, task = named, iteration] = /^(.*)#(\d+)$/.exec(named ?? '') ?? []
  const steps = await stepsOf(client, base, id, { task, iteration })
  if (steps.length === 0) throw new Error(`The execution has no step ${named ?? ''}.`)
  for (const step of steps.slice(0, SHOWN_MAX)) {
    printData(await client.get<StepData>(`${base}/executions/${id}/steps/${step.id}`))
  }
  if (steps.length > SHOWN_MAX)
    process.stdout.write(
      `(${steps.length - SHOWN_MAX} more steps; select one with --step, such as --step ${steps[0]?.name}#7)\n`,
    )
}

function printData(step: StepData): void {
  const { name, iteration, status, attempts, truncated } = step
  const tries = attempts > 1 ? `  attempt ${attempts}` : ''
  process.stdout.write(`${name}#${iteration}  ${status}${tries}\n`)
  for (const field of ['input', 'arguments', 'output', 'error'] as const) {
    if (step[field] === undefined) continue
    const note = truncated.includes(field) ? ' (shortened)' : ''
    process.stdout.write(`  ${field}${note}: ${JSON.stringify(step[field])}\n`)
  }
}

export function stepVerbs(flows: Command): void {
  addVerb(
    flows,
    'steps <execution>',
    'List the steps of an execution in the order in which they started.',
    listSteps,
    [
      WORKSPACE,
      [
        '--status <status>',
        'List only steps with this status: running, completed, faulted, skipped or cancelled.',
      ],
      ['--task <task>', 'List only steps of this task: a name or a pointer.'],
      ['--json', 'Print the steps as JSON.'],
    ],
  )
}
