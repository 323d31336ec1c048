// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Places that take one type: an expression that certainly yields another one is a warning when the flow is published. */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'

const SCHEMA = `{ type: object, required: [who, n, list, deep], properties: {
    who: { type: string }, n: { type: integer }, list: { type: array }, deep: { type: object },
    when: { type: [string, object] }, maybe: { type: string } } }`
const HEAD = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }
input: { schema: { document: ${SCHEMA} } }
`
const warningsOf = (source: string) => {
  const { diagnostics, warnings } = compile(source, { catalogue: CATALOGUE })
  expect(diagnostics).toEqual([])
  return warnings.map(({ code, message, pointer }) => [code, pointer, message])
}
const first = (task: string) => warningsOf(`${HEAD}do: [{ a: ${task} }]`)

// Each place: how it is written around an expression, what it takes, and its own words for that.
const PLACES = [
  [
    '/approve/approvers',
    (e: string) => `{ approve: { approvers: '${e}' } }`,
    ['list'],
    '`approvers` must be a list',
  ],
  [
    '/approve/escalate/to',
    (e: string) => `{ approve: { approvers: [a], escalate: { after: P1D, to: '${e}' } } }`,
    ['list'],
    '`to` must be a list',
  ],
  [
    '/approve/title',
    (e: string) => `{ approve: { approvers: [a], title: '${e}' } }`,
    ['who'],
    '`title` must be a text',
  ],
  [
    '/approve/deadline',
    (e: string) => `{ approve: { approvers: [a], deadline: '${e}' } }`,
    ['who', 'deep', 'when'],
    '`deadline` must be a text or a mapping',
  ],
  [
    '/for/in',
    (e: string) => `{ for: { in: '${e}' }, do: [{ b: { set: {} } }] }`,
    ['list'],
    '`in` must be a list',
  ],
  ['/wait', (e: string) => `{ wait: '${e}' }`, ['who', 'deep', 'when'], 'A wait must be a text or a mapping'],
  ['/wait/until', (e: string) => `{ wait: { until: '${e}' } }`, ['who'], '`until` must be a text'],
  [
    '/raise/error/detail',
    (e: string) => `{ raise: { error: { type: timeout, status: 408, detail: '${e}' } } }`,
    ['who'],
    '`detail` must be a text',
  ],
  [
    '/with/endpoint',
    (e: string) => `{ call: http, with: { method: get, endpoint: '${e}' } }`,
    ['who'],
    '`endpoint` must be a text',
  ],
] as const
const FIELDS = ['who', 'n', 'list', 'deep', 'when'] as const

test.each(PLACES)(
  '%s: a field of the input: warns unless its schema allows what is taken',
  (at, write, takes, message) => {
    for (const field of FIELDS) {
      const isTaken =
        (takes as readonly string[]).includes(field) ||
        (field === 'when' && takes.some((one) => one === 'who'))
      for (const path of [`.${field}`, `$input.${field}`, `$workflow.input.${field}`]) {
        const wanted = isTaken
          ? []
          : [['expression_type', `/do/0/a${at}`, expect.stringContaining(`${message}; `)]]
        expect([path, first(write(`\${ ${path} }`))]).toEqual([path, wanted])
      }
    }
  },
)

test('type that the expression itself tells: warns without a schema', () => {
  const bare = (task: string) =>
    warningsOf(`document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo: [{ a: ${task} }]`)
  expect(bare('{ approve: { approvers: \'"\\(.boss), \\(.deputy)"\' } }')).toEqual([
    [
      'expression_type',
      '/do/0/a/approve/approvers',
      '`approvers` must be a list; this expression yields a text.',
    ],
  ])
  expect(bare('{ for: { in: .items | length }, do: [{ b: { set: {} } }] }')).toHaveLength(1)
  expect(bare('{ approve: { approvers: .who } }')).toEqual([])
})

test('input that is not known: never warns', () => {
  const approve = '{ approve: { approvers: .who } }'
  expect(warningsOf(`${HEAD}do: [{ a: { set: { who: [x] } } }, { b: ${approve} }]`)).toEqual([])
  expect(warningsOf(`${HEAD.replace('} }\n', '}, from: .deep }\n')}do: [{ a: ${approve} }]`)).toEqual([])
  expect(first('{ input: { from: .deep }, approve: { approvers: .who } }')).toEqual([])
  expect(first(`{ do: [{ b: { set: { who: [] } } }, { c: ${approve} }] }`)).toEqual([])
  expect(first('{ approve: { approvers: .other } }')).toEqual([])
  expect(first("{ approve: { approvers: [a] }, timeout: { after: '${ .n }' } }")).toEqual([])
})

test('schema of a task: tells its input, also of a later task', () => {
  const schema =
    'input: { schema: { document: { type: object, required: [x], properties: { x: { type: string } } } } }'
  expect(
    warningsOf(`${HEAD}do: [{ a: { set: {} } }, { b: { ${schema}, approve: { approvers: .x } } }]`),
  ).toHaveLength(1)
  expect(
    warningsOf(`${HEAD}concurrency: { limit: 1, key: '\${ .list }' }\ndo: [{ a: { set: {} } }]`),
  ).toEqual([
    [
      'expression_type',
      '/concurrency/key',
      '`key` must be a text or a number or true or false; this expression yields a list.',
    ],
  ])
})
