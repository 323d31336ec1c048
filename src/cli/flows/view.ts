/** How an execution is shown while it goes on: a tree that is drawn in place on a terminal, a line an event elsewhere. */

import type { Output } from './diagnostics.ts'
import { drawRun, errorText, type Head, markOf, RunTree, type StepNews } from './drawing.ts'

const REDRAW_MS = 120

/** A terminal has a size; what is none has colours of no kind. */
export interface Terminal extends Output {
  readonly columns?: number
  readonly rows?: number
}

export interface View {
  step(news: StepNews): void
  status(status: string): void
  /** Why nothing happens; undefined where it does. */
  note(text: string | undefined): void
  /** Events before these are not there any more. */
  gap(): void
  /** Nothing is shown after this. */
  end(): void
}

export function viewOf(head: Head, output: Terminal): View {
  return output.isTTY === true ? new LiveView(head, output) : new LineView(head, output)
}

class LiveView implements View {
  #head: Head
  readonly #output: Terminal
  readonly #tree = new RunTree()
  readonly #timer: NodeJS.Timeout
  /** Between the clock of the platform and ours: what is open lasts until now, there. */
  #aheadMs = 0
  #drawn = 0
  #isCut = false

  constructor(head: Head, output: Terminal) {
    this.#head = head
    this.#output = output
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS)
  }

  step(news: StepNews): void {
    this.#tree.take(news)
    this.#aheadMs = Math.max(this.#aheadMs, Date.parse(news.at) - Date.now())
  }

  status(status: string): void {
    this.#head = { ...this.#head, status }
  }

  note(note: string | undefined): void {
    this.#head = { ...this.#head, note }
  }

  gap(): void {
    this.#isCut = true
  }

  end(): void {
    clearInterval(this.#timer)
    this.#draw(this.#tree.nowMs || Date.now())
  }

  #draw(nowMs = Date.now() + this.#aheadMs): void {
    const { columns = 80, rows = 24 } = this.#output
    const lines = drawRun(this.#head, this.#tree, { nowMs, columns, output: this.#output })
    if (this.#isCut) lines.push('(What happened first is not kept any more.)')
    // What has left the screen at its top cannot be drawn again.
    const room = Math.max(2, rows - 2)
    const [first = '', ...rest] = lines
    const shown = lines.length <= room ? lines : [first, '…', ...rest.slice(2 - room)]
    const up = this.#drawn === 0 ? '' : `\u001b[${this.#drawn}A`
    this.#output.write(`${up}\r\u001b[J${shown.join('\n')}\n`)
    this.#drawn = shown.length
  }
}

class LineView implements View {
  readonly #head: Head
  readonly #output: Output
  #noted: string | undefined

  constructor(head: Head, output: Output) {
    this.#head = head
    this.#output = output
  }

  step({ at, status, name, summary, attempt = 1, took, error }: StepNews): void {
    const time = `+${((Date.parse(at) - this.#head.startedMs) / 1_000).toFixed(3)}s`.padStart(12)
    const told = summary.startsWith(`${name}: `) ? summary.slice(name.length + 2) : summary
    const why = error === undefined || !['faulted', 'held'].includes(status) ? undefined : errorText(error)
    const notes = [attempt > 1 && `attempt ${attempt}`, took && `→ ${took}`, why]
    const line = [time, status.padEnd(9), name, told, ...notes].filter(Boolean).join('  ')
    this.#output.write(`${markOf(status, this.#output)} ${line}\n`)
  }

  status(): void {}

  note(text: string | undefined): void {
    if (text !== undefined && text !== this.#noted)
      this.#output.write(`${markOf('pending', this.#output)} ${text}\n`)
    this.#noted = text
  }

  gap(): void {
    this.#output.write('(What happened before is not kept any more.)\n')
  }

  end(): void {}
}
