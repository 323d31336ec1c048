// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Compilation of `call: mcp`, and its mocks in simulations. */

import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Mocks } from '../../../flows-dsl/simulator/types.ts'
import { HEAD, table } from '../../conformance/flows/diagnostic-table.ts'
import { CATALOGUE, compiled } from '../../conformance/flows/scenario.ts'

describe('call: mcp', () => {
  table([
    ['{ call: mcp, with: { server: desk, tool: find } }'],
    ["{ call: mcp, with: { server: mcp_01, tool: a.b-c_d, arguments: { x: '${ .x }', y: [1] } } }"],
    ["{ call: mcp, with: { server: desk, tool: find, arguments: '${ . }' } }"],
    ["{ call: 'mcp:1.0.0@default', with: { server: desk, tool: find }, awaitCallback: { timeout: PT1M } }"],
    ['¦{ call: mcp }', 'missing_key '],
    ['{ call: mcp, with: ¦desk }', 'wrong_type /with'],
    ['{ call: mcp, with: ¦¦{} }', 'missing_key /with', 'missing_key /with'],
    ['{ call: mcp, with: ¦{ server: desk } }', 'missing_key /with'],
    ['{ call: mcp, with: { server: desk, tool: find, ¦args: {} } }', 'unknown_key /with/args'],
    ['{ call: mcp, with: { server: desk, tool: find, arguments: ¦[] } }', 'wrong_type /with/arguments'],
    ["{ call: mcp, with: { server: ¦'${ .s }', tool: find } }", 'value_invalid /with/server'],
    ["{ call: mcp, with: { server: desk, tool: ¦'${ .t }' } }", 'value_invalid /with/tool'],
    ['{ call: mcp, with: { server: ¦5, tool: find } }', 'wrong_type /with/server'],
    ["{ call: mcp, with: { server: ¦'../desk', tool: find } }", 'value_invalid /with/server'],
    [
      '{ call: mcp, with: { server: desk, tool: find }, metadata: { tenon: { local: ¦true } } }',
      'value_invalid /metadata/tenon/local',
    ],
    ['{ call: mcp, with: { ¦transport: { stdio: { command: npx } } } }', 'unsupported_call /with/transport'],
    ['{ call: mcp, with: { ¦method: tools/list } }', 'unsupported_call /with/method'],
    ['{ call: mcp, with: { server: desk, tool: find, ¦transport: {} } }', 'unknown_key /with/transport'],
  ])

  test('secret as an argument: refused, with its place', () => {
    const source = `${HEAD.replace('do:', 'use: { secrets: [key] }\ndo:')}  - a: { call: mcp, with: { server: desk, tool: find, arguments: { k: '\${ $secrets.key }' } } }`
    const [fault] = compile(source, { catalogue: CATALOGUE }).diagnostics
    expect([fault?.code, fault?.pointer]).toEqual(['secret_stored', '/do/0/a/with/arguments'])
  })

  test('misspelt kind of call: suggested', () => {
    const [fault] = compile(`${HEAD}  - a: { call: mpc }`, { catalogue: CATALOGUE }).diagnostics
    expect(fault?.hint).toBe('Did you mean mcp?')
  })
})

describe('mocks', () => {
  const ir = compiled(
    `${HEAD}  - a: { call: mcp, with: { server: desk, tool: find }, output: { as: .structuredContent.n } }`,
  )
  const answer = (n: number) => ({ output: { structuredContent: { n } } })
  test.each<[string, Mocks, number]>([
    ['the tool, rather than all tools', { mcp: answer(1), 'desk/find': answer(2) }, 2],
    ['all tools', { mcp: answer(1), 'desk/other': answer(2) }, 1],
    ['the task, rather than the tool', { a: answer(3), 'desk/find': answer(2) }, 3],
  ])('named by %s', (_name, mocks, expected) => {
    expect(simulate(ir, { mocks }).output).toBe(expected)
  })

  test('none: the simulation says which is missing', () => {
    expect(simulate(ir, {}).wanted).toMatchObject([{ what: 'the answer of mcp' }])
  })
})
