/** Shows how far an operation is: as lines that are redrawn on a terminal, as one line per change elsewhere. */

import { clip, markOf, paint, RedrawnLines, type Terminal, visible } from '../terminal.ts'

export interface Step {
  readonly name: string
  readonly state: string
  readonly code?: string
  readonly detail?: string
  readonly attempts?: number
}

/** A long-running operation, as the API returns it. */
export interface Operation {
  readonly id: string
  readonly tenant_id: string
  readonly type: string
  readonly target: string
  readonly state: string
  readonly steps: readonly Step[]
  readonly error: { readonly code: string; readonly detail: string } | null
  readonly result: unknown
  readonly created_at: string
  readonly finished_at: string | null
}

export interface OperationView {
  show(operation: Operation): void
  /** Shows why nothing is known of the operation for now. */
  unanswered(reason: string): void
}

export const viewOf = (output: Terminal): OperationView =>
  output.isTTY === true ? new LiveView(output) : new LineView(output)

const titleOf = ({ id, type, target, state }: Operation): string => `${type} ${target}  ${state}  ${id}`

/** `store_documents  waiting  attempt 4  dependency_unavailable: The object store does not answer.` */
export function stepText({ name, state, attempts, code, detail }: Step): string {
  const reason = code === undefined ? undefined : `${code}: ${detail}`
  return visible([name, state, attempts && `attempt ${attempts}`, reason].filter(Boolean).join('  '))
}

class LiveView implements OperationView {
  readonly #output: Terminal
  readonly #block: RedrawnLines
  #lines: readonly string[] = []

  constructor(output: Terminal) {
    this.#output = output
    this.#block = new RedrawnLines(output)
  }

  show(operation: Operation): void {
    const steps = operation.steps.map((step) => this.#line('  ', step.state, stepText(step)))
    this.#lines = [this.#line('', operation.state, titleOf(operation)), ...steps]
    this.#block.draw(this.#lines)
  }

  unanswered(reason: string): void {
    const line = paint('yellow', clip(`  ${reason}`, this.#columns), this.#output)
    this.#block.draw([...this.#lines, line])
  }

  get #columns(): number {
    return this.#output.columns ?? 80
  }

  #line(indent: string, state: string, text: string): string {
    const width = this.#columns - indent.length - 2
    return `${indent}${markOf(state, this.#output)} ${clip(text, width)}`
  }
}

class LineView implements OperationView {
  readonly #output: Terminal
  /** The last line of each step, of the operation, and of the server. */
  readonly #printed = new Map<string, string>()

  constructor(output: Terminal) {
    this.#output = output
  }

  show(operation: Operation): void {
    this.#printed.delete('server')
    const isEnded = operation.finished_at !== null
    // The state of the operation comes after those of the steps that have led to it.
    if (!isEnded) this.#printOperation(operation)
    for (const step of operation.steps) {
      // Of further attempts that fail for the same reason there is no line.
      const { attempts: _, ...line } = step
      this.#print(`step ${step.name}`, `  ${markOf(step.state, this.#output)} ${stepText(line)}`)
    }
    if (isEnded) this.#printOperation(operation)
  }

  unanswered(reason: string): void {
    this.#print('server', `  ${reason}`)
    // It is printed again when the server is back.
    this.#printed.delete('operation')
  }

  #printOperation(operation: Operation): void {
    this.#print('operation', `${markOf(operation.state, this.#output)} ${titleOf(operation)}`)
  }

  #print(subject: string, line: string): void {
    if (this.#printed.get(subject) !== line) this.#output.write(`${line}\n`)
    this.#printed.set(subject, line)
  }
}
