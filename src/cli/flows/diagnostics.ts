/** Prints the diagnostics of a definition as compilers do, in colour on a terminal. */

import { styleText } from 'node:util'

export interface Diagnostic {
  readonly code: string
  readonly message: string
  readonly line: number
  readonly column: number
  readonly pointer: string
  readonly hint?: string
  readonly excerpt?: string
}

/** A stream for text. A terminal shows colours, unless `NO_COLOR` disables them. */
export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean
  hasColors?(): boolean
}

type Style = Parameters<typeof styleText>[0]

/** Colours a text if the output shows colours. */
export function paint(style: Style, text: string, output: Output): string {
  return output.isTTY === true && output.hasColors?.() === true
    ? styleText(style, text, { validateStream: false })
    : text
}

/** Prints each diagnostic as `file:line:column code: message`, with its hint, its line of the source, and a caret. */
export function printDiagnostics(
  file: string,
  diagnostics: readonly Diagnostic[],
  severity: 'error' | 'warning' = 'error',
  output: Output = process.stderr,
): void {
  const [style, prefix] = severity === 'error' ? (['red', ''] as const) : (['yellow', 'warning '] as const)
  for (const { code, line, column, message, hint, excerpt } of diagnostics) {
    const location = paint('bold', `${file}:${line}:${column}`, output)
    const advice = hint === undefined ? '' : ` ${paint('cyan', hint, output)}`
    output.write(`${location} ${paint(style, `${prefix}${code}`, output)}: ${message}${advice}\n`)
    if (excerpt !== undefined) output.write(`${excerpt.replace(/\^$/, paint(style, '^', output))}\n`)
  }
}
