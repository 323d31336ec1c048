// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults of tasks: what each does, what it is called, where it leads. */

import { type FaultKind, flow, task } from './kind.ts'

export const TASK_FAULTS = {
  unsupported_call: {
    title: 'A kind of call is not supported in this release',
    explanation:
      'Calls by AsyncAPI, gRPC, A2A and MCP are known and not made. Another server is called by `http` or `openapi`.',
    example: task('call: ¦grpc'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com }'),
  },
  task_not_single: {
    title: 'An item of a task list must be one name with one task',
    explanation:
      'Each item of a list is one name, with the keys of the task two spaces further in than the name.',
    example: flow(
      'do:',
      '  - pay:',
      '      set: { paid: true }',
      '    ¦ship:',
      '      set: { shipped: true }',
    ),
    fix: flow('do:', '  - pay:', '      set: { paid: true }', '  - ship:', '      set: { shipped: true }'),
  },
  task_kind_missing: {
    title: 'A task does not say what it does',
    explanation: 'A task has one key that names its kind, such as `call`, `set` or `wait`.',
    example: task('¦sett: { paid: true }'),
    fix: task('set: { paid: true }'),
  },
  task_kind_ambiguous: {
    title: 'A task says two things at once',
    explanation: 'A task has one kind. Two things are two tasks, one after the other.',
    example: task('set: { paid: true }', '¦wait: PT1S'),
    fix: flow('do:', '  - pay:', '      set: { paid: true }', '  - rest:', '      wait: PT1S'),
  },
  task_name_duplicate: {
    title: 'Two tasks of one list have the same name',
    explanation: '`then` finds a task by its name, so names are unique in a list.',
    example: flow('do:', '  - pay: { set: { paid: true } }', '  - ¦pay: { set: { paid: false } }'),
    fix: flow('do:', '  - pay: { set: { paid: true } }', '  - refund: { set: { paid: false } }'),
  },
  task_name_reserved: {
    title: 'A task has the name of a flow directive',
    explanation: '`continue`, `exit` and `end` are what `then` may say, so no task has these names.',
    example: flow('do:', '  - ¦end: { set: { paid: true } }'),
    fix: flow('do:', '  - finish: { set: { paid: true } }'),
  },
  unknown_target: {
    title: 'A flow directive names no task of its list',
    explanation:
      '`then` names a task of the same list, or is `continue`, `exit` or `end`. Tasks of other lists cannot be reached.',
    example: task('set: { paid: true }', 'then: ¦ship'),
    fix: task('set: { paid: true }', 'then: end'),
  },
} as const satisfies Record<string, FaultKind>
