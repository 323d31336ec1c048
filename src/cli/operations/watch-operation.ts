/** Watches a long-running operation to its end, whatever becomes of the API meanwhile. Its progress is on stderr. */

import { setTimeout as delay } from 'node:timers/promises'
import { type ApiClient, ApiError, UnreachableError } from '../client.ts'
import { type JsonOption, printRecord } from '../output.ts'
import { adminClient } from '../settings.ts'
import { type Flag, printError } from '../verb.ts'
import { type Operation, type OperationView, stepText, viewOf } from './operation-view.ts'

/** Pause before the operation is read again; it doubles while nothing changes. */
const [PAUSE_MIN_MS, PAUSE_MAX_MS] = [125, 2_000]
/** How long the API may not answer, such as while it is updated. */
const UNANSWERED_MAX_MS = 300_000

/** The option of verbs that start an operation. */
export const NO_WAIT_FLAG: Flag = ['--no-wait', 'Print the operation, and do not watch it.']

export interface WatchOptions extends JsonOption {
  /** False with `--no-wait`. */
  readonly wait?: boolean
}

const watchCommand = (id: string): string => `tenon operation watch ${id}`

/** What a verb does with the end of its operation. */
export interface Ending {
  /** Reads what is printed if the operation succeeds. Default: the operation itself. */
  readonly result?: () => Promise<object>
  /** What the caller can do if it fails. */
  readonly nextStep?: string
}

/**
 * Watches an operation that a verb has started, and prints what has become of it.
 * @returns the exit code: 0 if it succeeded, or with `--no-wait`
 */
export async function finishOperation(
  operation: Operation,
  { wait = true, json = false }: WatchOptions,
  { result, nextStep }: Ending = {},
): Promise<number> {
  if (!wait) {
    process.stderr.write(
      `${operation.id} is ${operation.state}. To watch it: ${watchCommand(operation.id)}\n`,
    )
    return printOperation(operation, { json })
  }
  const ended = await watchOperation(operation.id)
  const isDone = ended.state === 'succeeded'
  if (isDone && result !== undefined) return printRecord(await result(), { json })
  printOperation(ended, { json })
  if (isDone) return 0
  const { code, detail } = ended.error ?? { code: ended.state, detail: 'The operation did not succeed.' }
  for (const line of [`${code}: ${detail}`, nextStep]) if (line !== undefined) printError(line)
  return 1
}

/** Prints an operation; its steps by their names. */
export function printOperation(operation: Operation, { json }: JsonOption): number {
  if (json) return printRecord(operation, { json })
  const steps = operation.steps.map((step) => [step.name, stepText(step).slice(step.name.length).trim()])
  return printRecord({ ...operation, steps: Object.fromEntries(steps) }, {})
}

/**
 * Shows the steps of an operation until it has ended.
 * @param id `op_…`
 * @returns the operation as it ended
 * @throws ApiError that a repetition would not mend; UnreachableError if the API has not answered for 5 minutes
 */
export async function watchOperation(id: string): Promise<Operation> {
  const goesOn = () => process.stderr.write(`${id} goes on. To watch it: ${watchCommand(id)}\n`)
  const leave = () => {
    process.stderr.write('\n')
    goesOn()
    process.exit(130)
  }
  process.once('SIGINT', leave)
  try {
    return await readToEnd(id, viewOf(process.stderr))
  } catch (error) {
    goesOn()
    throw error
  } finally {
    process.off('SIGINT', leave)
  }
}

async function readToEnd(id: string, view: OperationView): Promise<Operation> {
  const source = new OperationSource(id, view)
  let pauseMs = PAUSE_MIN_MS
  let seen: string | undefined
  for (;;) {
    const operation = await source.read()
    const now = JSON.stringify(operation)
    if (operation !== undefined && now !== seen) view.show(operation)
    if (operation !== undefined && operation.finished_at !== null) return operation
    pauseMs = now === seen ? Math.min(pauseMs * 2, PAUSE_MAX_MS) : PAUSE_MIN_MS
    seen = now
    await delay(pauseMs)
  }
}

/** Reads one operation again and again, with a new token when the last one has expired. */
class OperationSource {
  readonly #path: string
  readonly #view: OperationView
  #client: ApiClient | undefined
  #answeredMs = Date.now()

  constructor(id: string, view: OperationView) {
    this.#path = `/v1/operations/${encodeURIComponent(id)}`
    this.#view = view
  }

  /** @returns undefined if the API does not answer for now */
  async read(): Promise<Operation | undefined> {
    const isNew = this.#client === undefined
    try {
      this.#client ??= await adminClient()
      const operation = await this.#client.get<Operation>(this.#path)
      this.#answeredMs = Date.now()
      return operation
    } catch (error) {
      const hasExpired = error instanceof ApiError && error.status === 401 && !isNew
      if (hasExpired) this.#client = undefined
      else if (!isTransient(error) || Date.now() - this.#answeredMs > UNANSWERED_MAX_MS) throw error
      else this.#view.unanswered('The API does not answer. Trying again.')
      return undefined
    }
  }
}

/** True while the API restarts, or lacks a server or a turn of its own. */
const isTransient = (error: unknown): boolean =>
  error instanceof UnreachableError ||
  (error instanceof ApiError && (error.status === 429 || error.status >= 500))
