// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Compilation of `listen`, `run`, `approve`, `compensate` and `onFault`, with located diagnostics. */

import { describe, expect, test } from 'vitest'
import { faultsOf, HEAD, table } from '../../conformance/flows/diagnostic-table.ts'
import { compiled } from '../../conformance/flows/scenario.ts'

const A = '{ with: { type: a } }'
const B = '{ with: { type: b } }'
const DO = 'do: [{ b: { set: {} } }]'

describe('listen', () => {
  table([
    [`{ listen: { to: { one: ${A} } } }`],
    [`{ listen: { to: { all: [${A}, ${B}] }, read: envelope } }`],
    ['{ listen: { to: { any: [] }, read: raw } }'],
    [`{ listen: { to: { any: [${A}], until: (. | not) } } }`],
    ['{ listen: { to: { any: [], until: false } } }'],
    [`{ listen: { to: { any: [], until: { all: [${A}, ${B}] } } } }`],
    [`{ listen: { to: { any: [], until: { any: [${A}], until: false } } } }`],
    ['{ listen: ¦{} }', 'missing_key /listen'],
    ['{ listen: ¦[] }', 'wrong_type /listen'],
    [`{ listen: ¦{ ¦too: { one: ${A} } } }`, 'missing_key /listen', 'unknown_key /listen/too'],
    ['{ listen: { to: ¦{} } }', 'missing_key /listen/to'],
    ['{ listen: { to: ¦any } }', 'wrong_type /listen/to'],
    [`{ listen: { to: { one: ${A}, ¦any: [] } } }`, 'value_invalid /listen/to/any'],
    [`{ listen: { to: { all: [${A}], ¦until: .x } } }`, 'value_invalid /listen/to/until'],
    ['{ listen: { to: { any: [], until: ¦5 } } }', 'wrong_type /listen/to/until'],
    ['{ listen: { to: { any: [], until: .x +¦ } } }', 'expression_invalid /listen/to/until'],
    ['{ listen: { to: { any: [], until: ¦{} } } }', 'missing_key /listen/to/until'],
    [
      `{ listen: { to: { any: [], until: { any: [${A}], until: ¦.x } } } }`,
      'value_invalid /listen/to/until/until',
    ],
    ['{ listen: { to: { any: [] }, read: ¦body } }', 'value_invalid /listen/read'],
    [`{ listen: { to: { any: ¦${A} } } }`, 'wrong_type /listen/to/any'],
    ['{ listen: { to: { all: ¦[] } } }', 'value_invalid /listen/to/all'],
    [`{ listen: { to: { one: ¦[${A}] } } }`, 'wrong_type /listen/to/one'],
  ])
})

describe('filters of listen', () => {
  const one = (filter: string) => `{ listen: { to: { one: ${filter} } } }`
  const at = '/listen/to/one'
  table([
    [one("{ with: { type: a, data: '${ .temperature > 38 }', roomid: 5 } }")],
    [
      one(
        '{ with: { type: a }, correlate: { room: { from: .roomid }, order: { from: .o, expect: $input.o } } }',
      ),
    ],
    [one('¦{}'), `missing_key ${at}`],
    [one('{ with: ¦{} }'), `value_invalid ${at}/with`],
    [one('{ with: ¦a }'), `wrong_type ${at}/with`],
    [one('{ with: { type: ¦5 } }'), `wrong_type ${at}/with/type`],
    [one('{ with: { ¦Type: a } }'), `unknown_key ${at}/with/Type`],
    [one('{ with: { ¦room_id: a } }'), `unknown_key ${at}/with/room_id`],
    [one("{ with: { data: ¦'x ${ . }' } }".replace("¦'x ", "'x ¦")), `expression_partial ${at}/with/data`],
    [one('{ with: { type: a }, ¦corelate: {} }'), `unknown_key ${at}/corelate`],
    [one('{ with: { type: a }, correlate: ¦[] }'), `wrong_type ${at}/correlate`],
    [one('{ with: { type: a }, correlate: { room: ¦.x } }'), `wrong_type ${at}/correlate/room`],
    [one('{ with: { type: a }, correlate: { room: ¦{} } }'), `missing_key ${at}/correlate/room`],
    [
      one('{ with: { type: a }, correlate: { room: { from: .x, ¦expects: a } } }'),
      `unknown_key ${at}/correlate/room/expects`,
    ],
  ])
})

describe('foreach of listen', () => {
  const each = (foreach: string) => `{ listen: { to: { any: [] } }, foreach: ${foreach} }`
  table([
    [each('{}')],
    [
      each(
        "{ item: e, at: i, do: [{ b: { set: { x: '${ $e + $i }' } } }], output: { as: $e }, export: { as: $output } }",
      ),
    ],
    [each('¦[]'), 'wrong_type /foreach'],
    [each('{ ¦each: e }'), 'unknown_key /foreach/each'],
    [each('{ item: e, at: ¦e }'), 'value_invalid /foreach/at'],
    [each('{ item: ¦index }'), 'value_invalid /foreach/item'],
    [each('{ do: ¦[] }'), 'wrong_type /foreach/do'],
    [each('{ output: { schema: ¦{} } }'), 'missing_key /foreach/output/schema'],
    [each('{ output: { as: ¦$output } }'), 'expression_invalid /foreach/output/as'],
  ])
})

describe('run', () => {
  const flow = (more = '') => `workflow: { namespace: n, name: sub, version: '0.1.0'${more} }`
  table([
    [`{ run: { ${flow()} } }`],
    ["{ run: { workflow: { namespace: n, name: sub, input: '${ .x }' }, await: false, return: none } }"],
    [`{ run: { ${flow(", version: '1'").replace(", version: '1'", ", input: { a: '${ .b }' }")} } }`],
    ['{ run: ¦{} }', 'missing_key /run'],
    ['{ run: ¦sub }', 'wrong_type /run'],
    ['{ run: { workflow: ¦sub } }', 'wrong_type /run/workflow'],
    ['{ run: { workflow: ¦{ name: sub } } }', 'missing_key /run/workflow'],
    ["{ run: { workflow: { namespace: n, name: ¦'${ .x }' } } }", 'value_invalid /run/workflow/name'],
    ['{ run: { workflow: { namespace: n, name: x, version: ¦1.0 } } }', 'wrong_type /run/workflow/version'],
    ['{ run: { workflow: { namespace: n, name: x, input: ¦5 } } }', 'wrong_type /run/workflow/input'],
    [`{ run: { ${flow()}, await: ¦no } }`, 'wrong_type /run/await'],
    [`{ run: { ${flow()}, return: ¦code } }`, 'value_invalid /run/return'],
    [`{ run: { ${flow()}, return: ¦outptu } }`, 'value_invalid /run/return'],
    ['{ run: { ¦container: { image: x }, return: code } }', 'unsupported_feature /run/container'],
    ['{ run: { ¦script: { language: js, code: x } } }', 'unsupported_feature /run/script'],
    ['{ run: { await: false, ¦shell: { command: ls } } }', 'unsupported_feature /run/shell'],
  ])
})

describe('approve', () => {
  table([
    ['{ approve: { approvers: [ada] } }'],
    ["{ approve: { title: '${ .what }', approvers: .boards.first, quorum: 2, fourEyes: false } }"],
    ["{ approve: { approvers: [ada, '${ .boss }'], deadline: P2D, onDeadline: reject, onReject: fault } }"],
    ['{ approve: { approvers: .x, form: { type: object, required: [sum] } } }'],
    ['{ approve: { approvers: .x, form: { ¦tpye: object } } }', 'unknown_key /approve/form/tpye'],
    ['{ approve: ¦{} }', 'missing_key /approve'],
    ['{ approve: ¦true }', 'wrong_type /approve'],
    ['{ approve: { approvers: ¦[] } }', 'value_invalid /approve/approvers'],
    ["{ approve: { approvers: [ada, ¦' '] } }", 'value_invalid /approve/approvers/1'],
    ['{ approve: { approvers: [¦5] } }', 'wrong_type /approve/approvers/0'],
    ['{ approve: { approvers: ¦{ a: b } } }', 'wrong_type /approve/approvers'],
    ['{ approve: { approvers: [ada, bob, ada], quorum: ¦3 } }', 'value_invalid /approve/quorum'],
    ['{ approve: { approvers: .x, quorum: ¦0 } }', 'value_invalid /approve/quorum'],
    ['{ approve: { approvers: .x, quorum: ¦101 } }', 'value_invalid /approve/quorum'],
    ['{ approve: { approvers: .x, deadline: ¦soon } }', 'duration_invalid /approve/deadline'],
    ['{ approve: { approvers: .x, ¦onDeadline: reject } }', 'missing_key /approve/onDeadline'],
    [
      '{ approve: { approvers: .x, deadline: PT1S, onDeadline: ¦escalate } }',
      'value_invalid /approve/onDeadline',
    ],
    ['{ approve: { approvers: .x, onReject: ¦reject } }', 'value_invalid /approve/onReject'],
    ['{ approve: { approvers: .x, fourEyes: ¦2 } }', 'wrong_type /approve/fourEyes'],
    ['{ approve: { approvers: .x, ¦qourum: 2 } }', 'unknown_key /approve/qourum'],
    ['{ approve: { approvers: .x, title: ¦[] } }', 'wrong_type /approve/title'],
  ])
})

describe('compensate and onFault', () => {
  table([
    ["{ set: {}, compensate: [{ b: { input: { from: .output }, set: { x: '${ .id }' } } }] }"],
    ['{ set: {}, onFault: hold }'],
    [
      "{ set: {}, compensate: [{ b: { set: { x: '${ ¦$output }' } } }] }",
      'expression_invalid /compensate/0/b/set/x',
    ],
    ['{ set: {}, compensate: ¦[] }', 'wrong_type /compensate'],
    ['{ set: {}, compensate: [{ b: { set: {}, then: ¦a } }] }', 'unknown_target /compensate/0/b/then'],
    ['{ set: {}, onFault: ¦retry }', 'value_invalid /onFault'],
    [`{ for: { in: .x }, onFault: fail, ${DO} }`],
  ])

  test('form: is not read as a task', () => {
    const form = '{ enum: [{ kind: 1, pointer: 2, body: 3 }, { kind: run, pointer: 2, body: 3 }] }'
    const flow = compiled(`${HEAD}  - a: { approve: { approvers: [ada], form: ${form} } }`)
    expect(flow.facts).toMatchObject({ kinds: ['approve'] })
  })

  test('onFault: may be set for the whole flow', () => {
    expect(faultsOf('  - a: { set: {} }\nonFault: hold')).toEqual([])
    expect(faultsOf('  - a: { set: {} }\nonFault: wait')).toEqual(['value_invalid 4:10 /onFault'])
  })
})
