// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Values that the record of an execution cannot store are errors of the task that made them: caught, compensated, seen by
 * `onError` and `finally`, in executions as in simulations. Each kind of value, wherever a task may get it from.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { simulate } from '../../../flows-dsl/simulator/simulate.ts'
import type { Answer } from '../../../flows-dsl/simulator/types.ts'
import { compileFlow } from '../../../src/features/flows/definitions.ts'
import { createEntry, Executions } from '../../support/fixtures/executions.ts'
import { deployed } from '../../support/fixtures/functions.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { configure } from '../../support/stack/workspace-settings.ts'

const nested = (depth: number): string => `${'['.repeat(depth)}1${']'.repeat(depth)}`

/** As JSON. */
const VALUES: Record<string, string> = {
  NUL: '{"name":"a\\u0000"}',
  'half a surrogate pair': '{"name":"ab\\ud83d"}',
  'a key with NUL': '{"a\\u0000":1}',
  'a key with half a pair': '{"\\ude00b":1}',
  'too many levels': nested(300),
}
/** Expressions that yield such a value; a half pair comes only from other servers, and the rest is bounded while it is built. */
const EXPRESSIONS: Record<string, string> = {
  NUL: '{ name: ([97, 0] | implode) }',
  'a key with NUL': '{ ([97, 0] | implode): 1 }',
  'too many levels': 'reduce range(300) as $i (1; [.])',
  'too many bytes': '("x" * 1000000) | { a: ., b: ., c: ., d: ., e: . }',
}

let workspace: TestWorkspace
let executions: Executions
const server = createServer(({ url = '' }, response) => {
  const [, status, kind = ''] = url.split('/')
  response.writeHead(Number(status), { 'content-type': 'application/json' })
  response.end(VALUES[decodeURIComponent(kind)])
})
let host: string
let functionId: string
beforeAll(async () => {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  await configure(workspace, { egress: { allow: [host] } })
  functionId = await deployed(
    workspace,
    `export default ({ kind }) => JSON.parse((${JSON.stringify(VALUES)})[kind])`,
  )
})
afterAll(() => new Promise((done) => server.close(done)))

interface Case {
  readonly place: string
  readonly kind: string
  /** The task. */
  readonly bad: string
  /** The result of its call in a simulation. */
  readonly answer?: Answer
  /** The type of the error. */
  readonly type: RegExp
}

const post = (path: string) =>
  `call: http, with: { method: post, endpoint: 'http://${host}/${path.replaceAll(' ', '%20')}' }`
const INVALID = /\/(validation|expression|runtime|communication)$/

const casesOf = (): Case[] => [
  ...Object.keys(EXPRESSIONS).flatMap((kind) => {
    const expression = `'\${ ${EXPRESSIONS[kind]} }'`
    return [
      { place: 'set', kind, bad: `set: ${expression}`, type: INVALID },
      { place: 'export', kind, bad: `set: { a: 1 }, export: { as: ${expression} }`, type: INVALID },
      { place: 'input', kind, bad: `input: { from: ${expression} }, set: { a: 1 }`, type: INVALID },
      {
        place: 'emit',
        kind,
        bad: `emit: { event: { with: { type: t, data: ${expression} } } }`,
        type: INVALID,
      },
    ]
  }),
  ...Object.keys(VALUES).flatMap((kind): Case[] => {
    const output = JSON.parse(VALUES[kind] ?? '')
    const call = `call: function.invoke, with: { id: ${functionId}, input: { kind: ${kind} } }`
    const http = { place: 'HTTP', kind, bad: post(`200/${kind}`), type: INVALID }
    // So many levels are refused before they reach the interpreter: a function that returns them fails.
    if (kind === 'too many levels')
      return [{ ...http, answer: { error: { type: 'communication', code: 'upstream_invalid' } } }]
    return [
      { ...http, answer: { output } },
      { place: 'function', kind, bad: call, answer: { output }, type: INVALID },
    ]
  }),
  {
    place: 'the detail of an error',
    kind: 'NUL',
    bad: `raise: { error: { type: https://example.com/errors/own, status: 409, detail: '\${ [97, 0] | implode }' } }`,
    type: /^https:\/\/example.com\/errors\/own$/,
  },
]

/** The task within `try`, and then without: both can be compensated if they have had an effect. */
const flowOf = (bad: string, ledger: string, name: string) => {
  const entry = (text: string) => createEntry(text, ledger)
  const task = `${bad}, compensate: [{ unbad: { ${entry('unbad')} } }]`
  return `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }
do:
  - did: { ${entry('did')}, compensate: [{ undo: { ${entry('undid')} } }] }
  - tried: { try: [{ first: { ${task} } }], catch: { do: [{ caught: { ${entry('caught')} } }] } }
  - bad: { ${task} }
onError: [{ told: { ${entry('told')} } }]
finally: [{ last: { ${entry("'${ .status }'")} } }]
`
}

const outcomeOf = ({
  status,
  error,
  compensation,
}: {
  status: string
  error?: unknown
  compensation?: unknown
}) => {
  const { type, instance } = error as { type: string; instance: string }
  return { status, type, instance, compensation }
}

test('value that cannot be stored, of each kind, from each place: the task that made it faults, as in a simulation', async () => {
  const cases = casesOf()
  const check = async ({ place, kind, bad, answer, type }: Case) => {
    const title = `${place}: ${kind}`
    const [ledger, name] = [unique('ledger'), unique('bad')]
    const source = flowOf(bad, ledger, name)
    const { ir } = compileFlow(source)
    if (ir === undefined) throw new Error(`${title} does not compile: ${source}`)
    const entries = ['did', 'undo', 'caught', 'told', 'last', 'unbad']
    const mocks = Object.fromEntries(entries.map((one) => [one, { output: null }]))
    const answers = answer === undefined ? {} : { first: answer, bad: answer }
    const simulated = simulate(ir, { mocks: { ...mocks, ...answers } })
    const as = workspace.operator
    expect(
      (await call('POST', `${workspace.flows}/definitions`, { as, body: { name, source } })).status,
    ).toBe(201)
    await call('POST', `${workspace.flows}/definitions/${name}/versions`, { as, body: {} })
    const run = await executions.ended(await executions.start(name))
    const outcome = outcomeOf(run)
    expect(outcome, title).toMatchObject({
      status: 'faulted',
      type: expect.stringMatching(type),
      instance: '/do/2/bad',
    })
    expect(outcomeOf(simulated), title).toEqual(outcome)
    const undone = answer === undefined ? [] : ['unbad', 'unbad']
    expect(await executions.ledger(ledger), title).toEqual([
      'did',
      'caught',
      ...undone,
      'undid',
      'told',
      'faulted',
    ])
    expect(JSON.stringify(run.error), title).not.toContain('\\u0000')
  }
  // A few at a time, as a client would send them.
  const queue = [...cases]
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await check(next)
  }
  await Promise.all(Array.from({ length: 6 }, worker))
  expect(cases).toHaveLength(26)
})

test('answer of which the output keeps only what can be stored: the task completes', async () => {
  const keeps = `  - a: { ${post('200/half a surrogate pair')}, output: { as: '\${ keys }' } }`
  const run = await executions.ended(await executions.start(await executions.publish(keeps)))
  expect(run).toMatchObject({ status: 'completed', output: ['name'] })
})

test('answer with an error status whose content cannot be stored: the error stays what it is, with U+FFFD in the content', async () => {
  const run = await executions.ended(
    await executions.start(await executions.publish(`  - a: { ${post('409/NUL')} }`)),
  )
  expect(run.error).toMatchObject({
    status: 409,
    instance: '/do/0/a',
    response: { content: { name: 'a\ufffd' } },
  })
})

test('output of a flow that cannot be stored: the flow faults, and its tasks are compensated', async () => {
  const ledger = unique('ledger')
  const tasks = `  - did: { ${createEntry('did', ledger)}, compensate: [{ undo: { ${createEntry('undid', ledger)} } }] }`
  const more = `output: { as: '\${ [97, 0] | implode }' }\n`
  const run = await executions.ended(await executions.start(await executions.publish(tasks, { more })))
  expect(run).toMatchObject({ status: 'faulted', error: { instance: '/output/as' } })
  expect(await executions.ledger(ledger)).toEqual(['did', 'undid'])
})
