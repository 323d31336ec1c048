/** Prints the diagnostics of a definition as compilers do, in colour on a terminal. */

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
  for (const fault of faults) output.write(shown(file, fault, { name: fault.code, style: 'red' }, output))
}

/** The same, as `file:line:column warning code: message`. */
export function printWarnings(
  file: string,
  warnings: readonly Fault[],
  output: Output = process.stderr,
): void {
  for (const one of warnings)
    output.write(shown(file, one, { name: `warning ${one.code}`, style: 'yellow' }, output))
}

interface Kind {
  readonly name: string
  readonly style: Style
}

function shown(file: string, fault: Fault, { name, style }: Kind, output: Output): string {
  const { line, column, message, hint, excerpt } = fault
  const place = paint('bold', `${file}:${line}:${column}`, output)
  const advice = hint === undefined ? '' : ` ${paint('cyan', hint, output)}`
  const told = `${place} ${paint(style, name, output)}: ${message}${advice}\n`
  return excerpt === undefined ? told : `${told}${excerpt.replace(/\^$/, paint(style, '^', output))}\n`
}
