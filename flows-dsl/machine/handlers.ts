/** Runs the tasks under `onError` and `finally` when the tasks of an execution have ended, and then ends it. */

import { durationText } from '../compile/duration.ts'
import { ERRORS, type ErrorObject, FlowError } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import type { ChildResult } from '../tasks/task.ts'
import type { Lists } from './children.ts'
import type { MachineContext } from './machine-context.ts'
import type { FlowResult, FlowState, HandlerErrors } from './state.ts'
import { hasUnsettled } from './unsettled-calls.ts'

/** A `finally` cannot be cancelled, so its time is bounded. */
const FINALLY_MS = 3_600_000
const FINALLY_TIMEOUT = 'finally timeout'

export class Handlers {
  readonly #machine: MachineContext
  readonly #lists: Lists

  /** The owner of the lists calls `ended` or `failed` when one of the handlers has ended. */
  constructor(machine: MachineContext, lists: Lists) {
    this.#machine = machine
    this.#lists = lists
  }

  get #state(): FlowState {
    return this.#machine.state
  }

  /** True if a frame without a parent belongs to the handlers, by its key. */
  isOwn(key: string): boolean {
    return key === 'onError' || key === 'finally' || key === FINALLY_TIMEOUT
  }

  /** Ends the execution with a result, after `onError` if it is a fault, and after `finally`. */
  end(result: FlowResult): void {
    this.#machine.cancelAll()
    const { ir } = this.#machine
    const data = this.#state.input
    if (result.status === 'faulted' && ir.onError !== undefined)
      this.#open('onError', result, data, { error: result.error as unknown as Json })
    else this.#finish(result)
  }

  /** Cancels the tasks under `onError`; `finally` cannot be cancelled. */
  cancel(): void {
    const { ending } = this.#state
    if (ending?.list === 'onError') this.#finish(ending.result)
  }

  ended({ key, output, left }: ChildResult): void {
    const { ending } = this.#state
    if (ending === undefined) return
    if (key === FINALLY_TIMEOUT) {
      const detail = `\`finally\` took longer than ${durationText(FINALLY_MS)}.`
      this.failed(new FlowError(ERRORS.timeout, detail, '/finally'))
    } else if (ending.list === 'finally') this.#conclude(ending.result)
    else if (left === 'end') this.#complete(ending.result, output)
    else this.#finish(ending.result)
  }

  /** Keeps the error beside the result of the execution, which it does not change. */
  failed(error: FlowError): void {
    const { ending } = this.#state
    if (ending === undefined) return
    const result = withError(ending.result, ending.list, error.toObject())
    if (ending.list === 'finally') this.#conclude(result)
    else this.#finish(result)
  }

  /** The output of `onError` becomes that of the flow, if it is as the schema of the output says. */
  #complete(result: FlowResult, output: Json): void {
    const { evaluation, ir } = this.#machine
    const { compensation, handlerErrors } = result
    try {
      evaluation.validate(ir.output?.schema, output, 'The output')
    } catch (error) {
      if (!(error instanceof FlowError)) throw error
      this.failed(error.at('/output/schema'))
      return
    }
    const more = { ...(compensation && { compensation }), ...(handlerErrors && { handlerErrors }) }
    this.#finish({ status: 'completed', output, ...more })
  }

  #finish(result: FlowResult): void {
    this.#machine.cancelAll()
    if (this.#machine.ir.finally === undefined) {
      this.#conclude(result)
      return
    }
    const untilMs = this.#machine.environment.nowMs() + FINALLY_MS
    const summary = `at most ${durationText(FINALLY_MS)}`
    // Runs after all that the tasks can do at once.
    this.#machine.scheduleNext(() => {
      if (this.#state.ending?.list !== 'finally') return
      this.#machine.startEffect(
        { parent: 0, key: FINALLY_TIMEOUT },
        { do: 'sleep', untilMs, limits: true, summary },
      )
    })
    this.#open('finally', result, summaryOf(result), {})
  }

  #open(list: 'onError' | 'finally', result: FlowResult, data: Json, variables: JsonObject): void {
    this.#state.ending = { list, result }
    // An execution that faulted because of too many tasks still enters those of its handlers.
    this.#state.steps = 0
    this.#machine.enteredInTurn = 0
    const branchContext = { context: this.#state.lastContext ?? {}, isExported: false }
    this.#machine.scheduleNext(() =>
      this.#lists.open({ parent: 0, key: list, of: '', list, variables, data, branchContext }),
    )
  }

  /** Ends the execution, if it only waits until the outcome of every cancelled call is known. */
  settled(): void {
    const { ending } = this.#state
    if (ending?.isWaiting === true) this.#conclude(ending.result)
  }

  /** No call may be sent after the end, and none may have an outcome that the record does not show. */
  #conclude(result: FlowResult): void {
    this.#machine.cancelAll()
    if (hasUnsettled(this.#state)) {
      this.#state.ending = { list: 'finally', result, isWaiting: true }
      return
    }
    delete this.#state.ending
    this.#state.result = result
  }
}

function withError(result: FlowResult, list: keyof HandlerErrors, error: ErrorObject): FlowResult {
  return { ...result, handlerErrors: { ...result.handlerErrors, [list]: error } }
}

/** The data of `finally`. */
function summaryOf(result: FlowResult): JsonObject {
  return {
    status: result.status,
    ...('output' in result && { output: result.output }),
    ...('error' in result && { error: result.error as unknown as Json }),
  }
}
