/** Defines tests from a table of tasks and their diagnostics. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { CATALOGUE } from './scenario.ts'

export const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n"

/** `code line:column pointer` of each diagnostic; the tasks begin on line 3. */
export function faultsOf(tasks: string, catalogue = CATALOGUE): string[] {
  const { diagnostics } = compile(HEAD + tasks, { catalogue })
  return diagnostics.map(({ code, line, column, pointer }) => `${code} ${line}:${column} ${pointer}`)
}

/**
 * A task with a `¦` at the location of each diagnostic, and the diagnostics as code and pointer below the
 * task.
 */
export type Row = readonly [task: string, ...diagnostics: string[]]

export function table(rows: readonly Row[]): void {
  test.each(rows)('%s: yields the expected diagnostics', (marked, ...diagnostics) => {
    const [first = '', ...more] = `  - a: ${marked}`.split('¦')
    let column = first.length + 1
    const places = more.map((part) => {
      const place = `3:${column} /do/0/a`
      column += part.length
      return place
    })
    const wanted = diagnostics.map((fault, index) => fault.replace(' ', ` ${places[index]}`))
    expect(faultsOf([first, ...more].join(''))).toEqual(wanted)
    expect(places).toHaveLength(diagnostics.length)
  })
}
