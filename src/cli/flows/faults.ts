/** Knows how faults of a definition are shown: where compilers show theirs, in colours where someone looks. */

import { styleText } from 'node:util'

export interface Fault {
  readonly code: string
  readonly message: string
  readonly line: number
  readonly column: number
  readonly pointer: string
  readonly hint?: string
  readonly excerpt?: string
}

/** Where text goes: a terminal has colours, unless it or `NO_COLOR` says otherwise. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  hasColors?(): boolean
}

type Style = Parameters<typeof styleText>[0]

/** Colours a text for an output, if that shows colours. */
export function paint(style: Style, text: string, output: Output): string {
  return output.isTTY === true && output.hasColors?.() === true
    ? styleText(style, text, { validateStream: false })
    : text
}

/** Each fault as `file:line:column code: message`, with its hint, the line it stands in, and a caret. */
export function printFaults(file: string, faults: readonly Fault[], output: Output = process.stderr): void {
  for (const { line, column, code, message, hint, excerpt } of faults) {
    const place = paint('bold', `${file}:${line}:${column}`, output)
    const advice = hint === undefined ? '' : ` ${paint('cyan', hint, output)}`
    output.write(`${place} ${paint('red', code, output)}: ${message}${advice}\n`)
    if (excerpt !== undefined) output.write(`${excerpt.replace(/\^$/, paint('red', '^', output))}\n`)
  }
}
