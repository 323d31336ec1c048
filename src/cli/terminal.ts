/** Text for terminals: colours, marks of states, and lines that are redrawn in place. */

import { styleText } from 'node:util'

/** A stream for text. A terminal shows colours, unless `NO_COLOR` disables them. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  hasColors?(): boolean
}

/** An output with a size, if it is a terminal. */
export interface Terminal extends Output {
  readonly columns?: number
  readonly rows?: number
}

export type Style = Parameters<typeof styleText>[0]

/** Colours a text if the output shows colours. */
export function paint(style: Style, text: string, output: Output): string {
  return output.isTTY === true && output.hasColors?.() === true
    ? styleText(style, text, { validateStream: false })
    : text
}

/** By status of an execution or a task, and by state of an operation or one of its steps. */
const MARKS: Readonly<Record<string, readonly [mark: string, style: Style]>> = {
  completed: ['✓', 'green'],
  succeeded: ['✓', 'green'],
  faulted: ['✗', 'red'],
  failed: ['✗', 'red'],
  running: ['●', 'cyan'],
  pending: ['○', 'gray'],
  queued: ['○', 'gray'],
  waiting: ['◌', 'blue'],
  held: ['‖', 'yellow'],
  suspended: ['‖', 'yellow'],
  skipped: ['–', 'gray'],
  cancelled: ['⊘', 'yellow'],
}

/** The coloured mark of a status. */
export function markOf(status: string, output: Output): string {
  const [mark, style] = MARKS[status] ?? ['?', 'reset']
  return paint(style, mark, output)
}

/** Cuts a text to a number of characters; a cut text ends with `…`. */
export function clip(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** Escapes what would move the cursor, change colours or reverse the reading order: values may be a tenant's text. */
export function visible(text: string): string {
  return text.replaceAll(CONTROLS, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A block of lines at the end of the output, which each drawing replaces. */
export class RedrawnLines {
  readonly #output: Terminal
  #drawn = 0

  constructor(output: Terminal) {
    this.#output = output
  }

  /** @param lines none wider than the terminal; of more than fit on it, the first and the last are shown */
  draw(lines: readonly string[]): void {
    // Lines that have scrolled off the screen cannot be redrawn.
    const height = Math.max(2, (this.#output.rows ?? 24) - 2)
    const [first = '', ...rest] = lines
    const visibleLines = lines.length <= height ? lines : [first, '…', ...rest.slice(2 - height)]
    const up = this.#drawn === 0 ? '' : `\u001b[${this.#drawn}A`
    this.#output.write(`${up}\r\u001b[J${visibleLines.join('\n')}\n`)
    this.#drawn = visibleLines.length
  }
}
