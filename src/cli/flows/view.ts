/** Shows a running execution: as a tree that is redrawn on a terminal, as one line per event elsewhere. */

import { markOf, type Output, RedrawnLines, type Terminal } from '../terminal.ts'
import { drawExecution, ExecutionTree, errorText, type Head, type StepUpdate } from './drawing.ts'

const REDRAW_MS = 120

export interface View {
  step(update: StepUpdate): void
  status(status: string): void
  /** Shows the reason why nothing happens; undefined if something does. */
  waitingFor(reason: string | undefined): void
  /** Earlier events are not available any more. */
  gap(): void
  /** Shows the final state. */
  end(): void
}

export function viewOf(head: Head, output: Terminal): View {
  return output.isTTY === true ? new LiveView(head, output) : new LineView(head, output)
}

class LiveView implements View {
  #head: Head
  readonly #output: Terminal
  readonly #block: RedrawnLines
  readonly #tree = new ExecutionTree()
  readonly #timer: NodeJS.Timeout
  /** How far the clock of the platform is ahead of this one. */
  #aheadMs = 0
  #isCut = false

  constructor(head: Head, output: Terminal) {
    this.#head = head
    this.#output = output
    this.#block = new RedrawnLines(output)
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS)
  }

  step(update: StepUpdate): void {
    this.#tree.apply(update)
    this.#aheadMs = Math.max(this.#aheadMs, Date.parse(update.at) - Date.now())
  }

  status(status: string): void {
    this.#head = { ...this.#head, status }
  }

  waitingFor(waitingFor: string | undefined): void {
    this.#head = { ...this.#head, waitingFor }
  }

  gap(): void {
    this.#isCut = true
  }

  end(): void {
    clearInterval(this.#timer)
    this.#draw(this.#tree.nowMs || Date.now())
  }

  #draw(nowMs = Date.now() + this.#aheadMs): void {
    const { columns = 80 } = this.#output
    const lines = drawExecution(this.#head, this.#tree, { nowMs, columns, output: this.#output })
    if (this.#isCut) lines.push('(The first events are no longer available.)')
    this.#block.draw(lines)
  }
}

class LineView implements View {
  readonly #head: Head
  readonly #output: Output
  #reason: string | undefined

  constructor(head: Head, output: Output) {
    this.#head = head
    this.#output = output
  }

  step({ at, status, name, summary, attempt = 1, took, error }: StepUpdate): void {
    const time = `+${((Date.parse(at) - this.#head.startedMs) / 1_000).toFixed(3)}s`.padStart(12)
    const text = summary.startsWith(`${name}: `) ? summary.slice(name.length + 2) : summary
    const reason = error === undefined || !['faulted', 'held'].includes(status) ? undefined : errorText(error)
    const notes = [attempt > 1 && `attempt ${attempt}`, took && `→ ${took}`, reason]
    const line = [time, status.padEnd(9), name, text, ...notes].filter(Boolean).join('  ')
    this.#output.write(`${markOf(status, this.#output)} ${line}\n`)
  }

  status(): void {}

  waitingFor(reason: string | undefined): void {
    if (reason !== undefined && reason !== this.#reason)
      this.#output.write(`${markOf('pending', this.#output)} ${reason}\n`)
    this.#reason = reason
  }

  gap(): void {
    this.#output.write('(The first events are no longer available.)\n')
  }

  end(): void {}
}
