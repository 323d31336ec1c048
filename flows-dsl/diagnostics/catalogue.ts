// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** The catalogue of diagnostics by code, each with an explanation, an example and its fix. */

/** The documentation of one diagnostic code. */
interface DiagnosticKind {
  readonly title: string
  /** The cause and the remedy. */
  readonly explanation: string
  /** A whole definition that has this one diagnostic, at the position of `¦`. */
  readonly example: string
  /** The same definition without the diagnostic. */
  readonly fix: string
}

const HEAD = "document: { dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0' }"

/** A definition of these lines. */
function flow(...lines: readonly string[]): string {
  return `${[HEAD, ...lines].join('\n')}\n`
}

/** A definition of one task, `pay`, with these lines. */
function task(...lines: readonly string[]): string {
  return flow('do:', '  - pay:', ...lines.map((line) => `      ${line}`))
}

/** Functions, each of which calls the previous one twice. */
function doubled(count: number): readonly string[] {
  const calls = Array.from({ length: count }, (_, i) => `[{ a: { call: f${i} } }, { b: { call: f${i} } }]`)
  return ['    f0: { set: { paid: true } }', ...calls.map((list, i) => `    f${i + 1}: { do: ${list} }`)]
}

/** A definition that waits for one event with this filter. */
function listenTo(filter: string): string {
  return task(`listen: { to: { one: ${filter} } }`)
}

const ERRORS = {
  source_too_large: {
    title: 'The definition is too large',
    explanation:
      'A definition has at most 262,144 bytes and 50,000 tokens, which is about 1,900 short tasks. Put long lists into the input of the flow, or into a collection.',
    example: `¦${flow('do: [{ pay: { set: { paid: true } } }]')}#${' '.repeat(262_144)}`,
    fix: task('set: { paid: true }'),
  },
  compiled_too_large: {
    title: 'The compiled flow is too large',
    explanation:
      'Each execution carries the compiled form, which has at most 1,048,576 characters. It contains a function once per call, and an extension once per extended task.',
    example: `¦${flow('use:', '  functions:', ...doubled(24), 'do: [{ pay: { call: f24 } }]')}`,
    fix: flow('use:', '  functions:', ...doubled(2), 'do: [{ pay: { call: f2 } }]'),
  },
  nesting_too_deep: {
    title: 'The definition is nested too deeply',
    explanation:
      'Mappings and lists are nested at most 64 levels deep, which is about 20 tasks within each other, and function calls 32 levels. Declare deep parts as functions under `use`.',
    example: task(`set: { deep: ${'['.repeat(60)}¦[${']'.repeat(61)} }`),
    fix: task(`set: { deep: ${'['.repeat(50)}${']'.repeat(50)} }`),
  },
  yaml_syntax: {
    title: 'The definition is not valid YAML',
    explanation:
      'The text cannot be read as YAML 1.2. Expressions often need quotes, since `{`, `}`, `:` and `#` mean something in YAML.',
    example: `${task('set: { paid: true')}¦`,
    fix: task('set: { paid: true }'),
  },
  yaml_alias_refused: {
    title: 'Anchors and aliases are not allowed',
    explanation:
      'With aliases, a small text could expand to a huge definition. Declare repeated parts under `use`.',
    example: task('set: &paid ¦{ paid: true }'),
    fix: task('set: { paid: true }'),
  },
  yaml_directive_refused: {
    title: 'YAML directives are not allowed',
    explanation: 'Definitions are YAML 1.2. Remove the line that begins with `%`.',
    example: `¦%YAML 1.2\n---\n${task('set: { paid: true }')}`,
    fix: task('set: { paid: true }'),
  },
  yaml_multiple_documents: {
    title: 'There is more than one YAML document',
    explanation: 'A definition is one document, without a line of `---` between parts.',
    example: `${task('set: { paid: true }')}¦---\nmore: true\n`,
    fix: task('set: { paid: true }'),
  },
  yaml_duplicate_key: {
    title: 'A key occurs twice in one mapping',
    explanation: 'Only one of the two values could be used. Rename or remove one of them.',
    example: task('set: { paid: true, ¦paid: false }'),
    fix: task('set: { paid: true }'),
  },
  yaml_key_not_string: {
    title: 'A key is not a string',
    explanation: 'Keys of JSON are strings. Put a number, a date or `true` into quotes to use it as a key.',
    example: task('set: { ¦1: true }'),
    fix: task('set: { "1": true }'),
  },
  yaml_value_not_json: {
    title: 'A value has no JSON form',
    explanation:
      'Data is JSON, which has no values such as `.nan` and `.inf`. Write a number, a text or `null`.',
    example: task('set: { paid: ¦.inf }'),
    fix: task('set: { paid: true }'),
  },
  number_unsafe: {
    title: 'An integer would lose digits',
    explanation:
      'Numbers are doubles, which hold integers up to 2^53 - 1 exactly. A longer identifier would become another one, so write it as text. A number with an exponent, such as 1e20, is approximate on purpose and allowed.',
    example: task('set: { id: ¦7615917337495251231 }'),
    fix: task('set: { id: "7615917337495251231" }'),
  },
  wrong_type: {
    title: 'A value has the wrong type',
    explanation:
      'The value must have another type: a mapping, a list, a string, a number or a boolean. YAML reads `1.0` as a number; quotes make a string.',
    example: task('set: ¦paid'),
    fix: task('set: { paid: true }'),
  },
  value_invalid: {
    title: 'A value is not one of those allowed',
    explanation: 'The type is correct, but the value is not. The message lists what is allowed.',
    example: task('call: http', 'with: { method: GET, endpoint: ¦/orders }'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com/orders }'),
  },
  missing_key: {
    title: 'A key is missing',
    explanation: 'Add the key that the message names. The mapping requires it.',
    example: task('call: http', 'with: ¦{ method: GET }'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com }'),
  },
  unknown_key: {
    title: 'A key is not known',
    explanation:
      'Unknown keys are rejected, since a misspelled key would be ignored silently. The message names the nearest known key.',
    example: task('set: { paid: true }', '¦thn: end'),
    fix: task('set: { paid: true }', 'then: end'),
  },
  dsl_version_unsupported: {
    title: 'The version of the language is not supported',
    explanation:
      '`document.dsl` is the version of the Open Workflow Specification that the flow is written for: 1.0.0 to 1.0.3.',
    example: task('set: { paid: true }').replace("'1.0.3'", "¦'2.0.0'"),
    fix: task('set: { paid: true }'),
  },
  unsupported_feature: {
    title: 'A part of the language is not supported in this release',
    explanation:
      'The feature is part of the specification, but this release of the platform does not support it.',
    example: flow('evaluate: { language: ¦cel }', 'do: [{ pay: { set: { paid: true } } }]'),
    fix: flow('evaluate: { language: jq }', 'do: [{ pay: { set: { paid: true } } }]'),
  },
  duration_invalid: {
    title: 'A duration is not valid',
    explanation:
      'A duration is a mapping such as {hours: 1, minutes: 30}, or an ISO 8601 text such as PT1H30M, of at most 365 days. Years and months are not allowed, since their length varies.',
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
  trigger_input_invalid: {
    title: 'A trigger starts executions with an input that the flow refuses',
    explanation:
      'The clock starts executions with the input `{}`, events with a list of them, webhooks with `{ id, time, headers, body }`. If `input.schema` never accepts that, each such execution would fault before its first task.',
    example: flow(
      'input: { schema: { document: { type: object, required: [order] } } }',
      'schedule: { every: ¦PT1M }',
      'do: [{ pay: { set: { paid: true } } }]',
    ),
    fix: flow(
      'input: { schema: { document: { type: object } } }',
      'schedule: { every: PT1M }',
      'do: [{ pay: { set: { paid: true } } }]',
    ),
  },
  pattern_refused: {
    title: 'A regular expression cannot be matched',
    explanation: 'Patterns of a schema are matched in linear time, so back references are not supported.',
    example: flow(
      "input: { schema: { document: { pattern: ¦'^(a|b)\\1$' } } }",
      'do: [{ pay: { set: { paid: true } } }]',
    ),
    fix: flow(
      "input: { schema: { document: { pattern: '^(aa|bb)$' } } }",
      'do: [{ pay: { set: { paid: true } } }]',
    ),
  },
  unsupported_call: {
    title: 'A type of call is not supported in this release',
    explanation:
      'Calls by AsyncAPI, gRPC and A2A are not supported, nor `call: mcp` of a server outside the workspace. Use `http` or `openapi` to call another server.',
    example: task('call: ¦grpc'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com }'),
  },
  task_not_single: {
    title: 'An item of a task list must be one name with one task',
    explanation: 'Each item of a list is one name, with the keys of the task indented below it.',
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
    title: 'A task has no type',
    explanation: 'A task has one key that names its type, such as `call`, `set` or `wait`.',
    example: task('¦sett: { paid: true }'),
    fix: task('set: { paid: true }'),
  },
  task_kind_ambiguous: {
    title: 'A task has two types',
    explanation: 'A task has one type. Split it into two tasks, one after the other.',
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
    explanation:
      '`continue`, `exit` and `end` are flow directives of `then`, so no task may have these names.',
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
  unknown_reference: {
    title: 'A name is not declared',
    explanation:
      'The name refers to a declaration, in most cases under `use`, that does not exist in this definition.',
    example: task('raise: { error: ¦declined }'),
    fix: flow(
      'use: { errors: { declined: { type: https://example.com/declined, status: 402 } } }',
      'do:',
      '  - pay:',
      '      raise: { error: declined }',
    ),
  },
  circular_reference: {
    title: 'A declaration refers to itself',
    explanation: 'A function that calls itself, or a schema that refers to itself, would never end.',
    example: flow('use: { functions: { pay: { call: ¦pay } } }', 'do: [{ pay: { call: pay } }]'),
    fix: flow('use: { functions: { pay: { set: { paid: true } } } }', 'do: [{ pay: { call: pay } }]'),
  },
  secret_not_named: {
    title: 'A secret is not read by its name',
    explanation: 'The secrets of a flow must be known before it runs, so each is read as $secrets.name.',
    example: flow('use: { secrets: [key] }', 'do:', '  - pay:', "      set: { all: ¦'${ $secrets }' }"),
    fix: flow('use: { secrets: [key] }', 'do:', '  - pay:', "      set: { one: '${ $secrets.key }' }"),
  },
  secret_stored: {
    title: 'A secret would be stored in a document or an object',
    explanation:
      'API keys, other flows and exports read documents and objects, which would contain the secret in plain text. An execution that would store a secret in another way faults with an error of type `configuration`.',
    example: flow(
      'use: { secrets: [token] }',
      'do:',
      '  - keep:',
      '      call: collection.create',
      "      with: { name: orders, document: ¦{ token: '${ $secrets.token }' } }",
    ),
    fix: flow(
      'use: { secrets: [token] }',
      'do:',
      '  - pay:',
      '      call: http',
      "      with: { method: post, endpoint: https://example.com, body: { token: '${ $secrets.token }' } }",
    ),
  },
  unsupported_catalog: {
    title: 'Functions of other catalogs are not loaded',
    explanation:
      'The compiler loads nothing from outside. Functions of the platform are in the catalog `default`; declare others under `use.functions`.',
    example: task('call: ¦https://example.com/pay/function.yaml'),
    fix: task('call: http', 'with: { method: GET, endpoint: https://example.com }'),
  },
  unknown_function: {
    title: 'A function is not known',
    explanation: '`call` names a function of the platform, one of `use.functions`, `http` or `openapi`.',
    example: task('call: ¦colection.get', 'with: { name: orders, id: o-1 }'),
    fix: task('call: collection.get', 'with: { name: orders, id: o-1 }'),
  },
  missing_argument: {
    title: 'An argument of a function is missing',
    explanation: 'Add the argument that the message names. The function cannot be called without it.',
    example: task('call: collection.get', '¦with: { name: orders }'),
    fix: task('call: collection.get', 'with: { name: orders, id: o-1 }'),
  },
  unknown_argument: {
    title: 'An argument is not known to the function',
    explanation: 'The function has no argument of this name. The message names the nearest one.',
    example: task('call: collection.get', 'with: { name: orders, id: o-1, ¦ide: o-2 }'),
    fix: task('call: collection.get', 'with: { name: orders, id: o-1 }'),
  },
  expression_invalid: {
    title: 'An expression cannot be parsed',
    explanation:
      'Expressions are jq. The location is that of the first error: a syntax error, or a variable that is not defined there.',
    example: task("set: { paid: '${ .total + ¦}' }"),
    fix: task("set: { paid: '${ .total + 1 }' }"),
  },
  expression_partial: {
    title: 'An expression must be the whole of a string',
    explanation:
      'To insert values into a text, make the whole string an expression with interpolation: ${ "Hello, \\(.name)!" }.',
    example: task("set: { note: 'Paid ¦${ .total }' }"),
    fix: task('set: { note: \'${ "Paid \\(.total)" }\' }'),
  },
} as const satisfies Record<string, DiagnosticKind>

export const WARNINGS = {
  task_unreachable: {
    title: 'A task is unreachable',
    explanation:
      'This is a warning: the flow can be published and runs. No reachable task continues with this task or names it in `then`. Unreachable tasks that follow it are not reported.',
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
  looks_like_expression: {
    title: 'A text looks like an expression',
    explanation:
      'This is a warning. The value is compared as text, because only strings in `${ }` are expressions there. Put the expression into `${ }`.',
    example: listenTo('{ with: { type: paid }, correlate: { id: { from: .data.id, expect: ¦.id } } }'),
    fix: listenTo("{ with: { type: paid }, correlate: { id: { from: .data.id, expect: '${ .id }' } } }"),
  },
  attribute_within_itself: {
    title: 'A filter reads an attribute within itself',
    explanation:
      'This is a warning. In a filter of events, `.` is the value of the attribute. The expression under `data` writes `.team` for the field `team` of the data; `.data.team` would be a field within a field `data`.',
    example: listenTo('{ with: { type: paid, data: ¦\'${ .data.team == "QA" }\' } }'),
    fix: listenTo('{ with: { type: paid, data: \'${ .team == "QA" }\' } }'),
  },
  condition_assigns: {
    title: 'A condition assigns instead of comparing',
    explanation:
      'This is a warning. In jq, `=` yields a copy of the data with a changed value. The copy counts as `true`, so the condition always holds. `==` compares.',
    example: task('if: ¦.total = 0', 'set: { paid: true }'),
    fix: task('if: .total == 0', 'set: { paid: true }'),
  },
  expression_type: {
    title: 'An expression yields a value of the wrong type',
    explanation:
      'This is a warning. The type of the value follows from the text of the expression or from the schema of the input. A task that evaluates the expression faults with `expression`. Change the expression, or the type of the field in the schema.',
    example: flow(
      'input: { schema: { document: { type: object, properties: { boss: { type: string } } } } }',
      'do:',
      '  - pay: { approve: { approvers: ¦.boss } }',
    ),
    fix: flow(
      'input: { schema: { document: { type: object, properties: { boss: { type: string } } } } }',
      'do:',
      '  - pay: { approve: { approvers: "${ [.boss] }" } }',
    ),
  },
  interval_too_short: {
    title: 'The expected interval is not longer than that of the schedule',
    explanation:
      'This is a warning. Some starts are later than `schedule.every`. An `expect.interval` that is not longer is missed even if all starts succeed.',
    example: flow(
      'schedule: { every: PT1H }',
      'expect: { interval: ¦PT1H }',
      'do:',
      '  - pay: { set: { paid: true } }',
    ),
    fix: flow(
      'schedule: { every: PT1H }',
      'expect: { interval: PT65M }',
      'do:',
      '  - pay: { set: { paid: true } }',
    ),
  },
} as const satisfies Record<string, DiagnosticKind>

/** All diagnostics by code. Codes are part of the public interface. */
export const DIAGNOSTICS = { ...ERRORS, ...WARNINGS }
