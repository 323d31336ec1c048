/** Knows what is said of a kind of fault: to people, and to the test that tries each of them. */

/** What all faults of one code share. */
export interface FaultKind {
  readonly title: string
  /** Why it is a fault, and what to do. */
  readonly explanation: string
  /** A whole definition with this one fault, where `¦` stands. */
  readonly example: string
  /** The same definition without the fault. */
  readonly fix: string
}

const HEAD = "document: { dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0' }"

/** A definition of these lines. */
export function flow(...lines: readonly string[]): string {
  return `${[HEAD, ...lines].join('\n')}\n`
}

/** A definition of one task, `pay`, whose lines these are. */
export function task(...lines: readonly string[]): string {
  return flow('do:', '  - pay:', ...lines.map((line) => `      ${line}`))
}
