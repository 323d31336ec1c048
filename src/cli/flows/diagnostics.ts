/** Prints the diagnostics of a definition as compilers do, in colour on a terminal. */

import { type Output, paint } from '../terminal.ts'

export interface Diagnostic {
  readonly code: string
  readonly message: string
  readonly line: number
  readonly column: number
  readonly pointer: string
  readonly hint?: string
  readonly excerpt?: string
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
