/** Warnings: what compiles and runs, and is hardly what the author meant. They stop nothing. */

import { type FaultKind, flow } from './kind.ts'

export const WARNINGS = {
  task_unreachable: {
    title: 'No way leads to a task',
    explanation:
      'A warning; the flow runs as it stands. Whatever the conditions say, no task that is reached goes on to it or names it in a `then`. What stands behind it and cannot be reached either is not named again.',
    example: flow(
      'do:',
      '  - pay: { set: { paid: true }, then: end }',
      '  - ¦ship: { set: { shipped: true } }',
    ),
    fix: flow(
      'do:',
      '  - pay: { if: .free, set: { paid: true }, then: end }',
      '  - ship: { set: { shipped: true } }',
    ),
  },
} as const satisfies Record<string, FaultKind>
