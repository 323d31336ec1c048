// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults of what stands where in a definition: keys, types, values. */

import { type FaultKind, flow, task } from './kind.ts'

export const SHAPE_FAULTS = {
  wrong_type: {
    title: 'A value has the wrong type',
    explanation:
      'Another type of value belongs here: a mapping, a list, a string, a number, true or false. YAML reads `1.0` and `yes` as it likes; quotes make strings.',
    example: task('set: ¦paid'),
    fix: task('set: { paid: true }'),
  },
  value_invalid: {
    title: 'A value is not one of those allowed',
    explanation: 'The type is right and the value is not. The message says what is allowed.',
    example: task('call: http', 'with: { method: GET, endpoint: ¦/orders }'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com/orders }'),
  },
  missing_key: {
    title: 'A key is missing',
    explanation: 'Something cannot do without this key.',
    example: task('call: http', 'with: ¦{ method: GET }'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com }'),
  },
  unknown_key: {
    title: 'A key is not known',
    explanation:
      'Keys that are not known are refused, since one with a slip would be ignored silently. The nearest known key is named.',
    example: task('set: { paid: true }', '¦thn: end'),
    fix: task('set: { paid: true }', 'then: end'),
  },
  dsl_version_unsupported: {
    title: 'The version of the language is not supported',
    explanation:
      '`document.dsl` says for which version of the Open Workflow Specification the flow is written. There are 1.0.0 to 1.0.3.',
    example: task('set: { paid: true }').replace("'1.0.3'", "¦'2.0.0'"),
    fix: task('set: { paid: true }'),
  },
  unsupported_feature: {
    title: 'A part of the language is not supported in this release',
    explanation: 'The specification has it and this platform has not, or not yet.',
    example: flow('evaluate: { language: ¦cel }', 'do: [{ pay: { set: { paid: true } } }]'),
    fix: flow('evaluate: { language: jq }', 'do: [{ pay: { set: { paid: true } } }]'),
  },
  duration_invalid: {
    title: 'A duration is not valid',
    explanation:
      'A duration is a mapping such as {hours: 1, minutes: 30}, or a text of ISO 8601 such as PT1H30M, without years and months, whose length nobody knows; at most 365 days.',
    example: task('wait: ¦1 hour'),
    fix: task('wait: { hours: 1 }'),
  },
  cron_invalid: {
    title: 'A cron expression is not valid',
    explanation:
      'A cron expression has five fields: minute, hour, day of the month, month, day of the week. Each is `*`, a number, a name, a range, a list, or one of these with a step.',
    example: flow("schedule: { cron: '0 ¦25 * * *' }", 'do: [{ pay: { set: { paid: true } } }]'),
    fix: flow("schedule: { cron: '0 5 * * *' }", 'do: [{ pay: { set: { paid: true } } }]'),
  },
  pattern_refused: {
    title: 'A regular expression cannot be matched',
    explanation:
      'Patterns of a schema are matched while a flow runs, in time that grows with the text alone. So they cannot refer back to what a group has matched.',
    example: flow(
      "input: { schema: { document: { pattern: ¦'^(a|b)\\1$' } } }",
      'do: [{ pay: { set: { paid: true } } }]',
    ),
    fix: flow(
      "input: { schema: { document: { pattern: '^(aa|bb)$' } } }",
      'do: [{ pay: { set: { paid: true } } }]',
    ),
  },
} as const satisfies Record<string, FaultKind>
