// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Faults of names: what is declared, what is called, what expressions say. */

import { type FaultKind, flow, task } from './kind.ts'

export const NAME_FAULTS = {
  unknown_reference: {
    title: 'A name is not declared',
    explanation:
      'The name stands for something that is declared elsewhere in the definition, most often under `use`, and is not there.',
    example: task('raise: { error: ¦declined }'),
    fix: flow(
      'use: { errors: { declined: { type: https://example.com/declined, status: 402 } } }',
      'do:',
      '  - pay:',
      '      raise: { error: declined }',
    ),
  },
  circular_reference: {
    title: 'A declaration leads back to itself',
    explanation: 'A function that calls itself, and a schema that refers to itself, would never end.',
    example: flow('use: { functions: { pay: { call: ¦pay } } }', 'do: [{ pay: { call: pay } }]'),
    fix: flow('use: { functions: { pay: { set: { paid: true } } } }', 'do: [{ pay: { call: pay } }]'),
  },
  secret_not_named: {
    title: 'A secret is not read by its name',
    explanation: 'Which secrets a flow reads is known before it runs, so each is read as $secrets.name.',
    example: flow('use: { secrets: [key] }', 'do:', '  - pay:', "      set: { all: ¦'${ $secrets }' }"),
    fix: flow('use: { secrets: [key] }', 'do:', '  - pay:', "      set: { one: '${ $secrets.key }' }"),
  },
  secret_stored: {
    title: 'A secret would be stored in a document or an object',
    explanation:
      'Documents and objects are read by keys, by other flows and in exports, and a secret in them is there in the clear. A run that comes to store one by other ways faults with the type `configuration`.',
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
      'Nothing outside is read when a flow is compiled. Functions of the platform are in the catalog `default`; others are declared under `use.functions`.',
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
    explanation: 'The function cannot be called without it.',
    example: task('call: collection.get', '¦with: { name: orders }'),
    fix: task('call: collection.get', 'with: { name: orders, id: o-1 }'),
  },
  unknown_argument: {
    title: 'An argument is not known to the function',
    explanation: 'The function has no argument of this name. The nearest one is named.',
    example: task('call: collection.get', 'with: { name: orders, id: o-1, ¦ide: o-2 }'),
    fix: task('call: collection.get', 'with: { name: orders, id: o-1 }'),
  },
  expression_invalid: {
    title: 'An expression cannot be parsed',
    explanation:
      'Expressions are jq. The place is where the reader could not go on; variables that are not there at this place are named too.',
    example: task("set: { paid: '${ .total + ¦}' }"),
    fix: task("set: { paid: '${ .total + 1 }' }"),
  },
  expression_partial: {
    title: 'An expression must be the whole of a string',
    explanation: 'A text with values in it is an expression that makes a text: ${ "Hello, \\(.name)!" }.',
    example: task("set: { note: 'Paid ¦${ .total }' }"),
    fix: task('set: { note: \'${ "Paid \\(.total)" }\' }'),
  },
} as const satisfies Record<string, FaultKind>
