// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/**
 * Components declared in `use`: resolved by name, rejected if unknown, and executed as if written in place.
 */

import { expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import type { Json, TaskNode } from '../../../flows-dsl/ir.ts'
import { CATALOGUE, compiled, trace } from '../../conformance/flows/scenario.ts'
import { threadMs } from '../../support/thread-time.ts'

const HEAD = "document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\n"

function faultsOf(source: string): string[] {
  const { diagnostics } = compile(HEAD + source, { catalogue: CATALOGUE })
  return diagnostics.map(
    ({ code, line, column, hint }) => `${code} ${line}:${column}${hint ? ` ${hint}` : ''}`,
  )
}

function tasksOf(source: string): readonly TaskNode[] {
  return compiled(HEAD + source).do
}

const ERROR = '{ type: "https://x.test/e", status: 418, title: Tea, detail: "${ .why }" }'

test('error, retry and timeout by name: are replaced by their declarations', () => {
  const named = tasksOf(`use:
  errors: { tea: ${ERROR} }
  retries: { thrice: { delay: PT1S, when: "\${ $error.status == 503 }", limit: { attempt: { count: 3 } } } }
  timeouts: { short: { after: PT5S } }
do:
  - a: { raise: { error: tea }, timeout: short }
  - b: { try: [{ c: { set: {} } }], catch: { retry: thrice } }`)
  const plain = tasksOf(`use: {}
do:
  - a: { raise: { error: ${ERROR} }, timeout: { after: { seconds: 5 } } }
  - b: { try: [{ c: { set: {} } }], catch: { retry: { delay: PT1S, when: .x, limit: { attempt: { count: 3 } } } } }`)
  expect(named[0]).toEqual(plain[0])
  expect(named[0]?.timeoutMs).toBe(5_000)
  expect(named[1]?.body).toMatchObject({ catch: { retry: { delayMs: 1_000, count: 3 } } })
})

test('retry by name: sees the error under the name that its catch gives it', () => {
  const source = (as: string) =>
    faultsOf(`use: { retries: { r: { when: "\${ $problem.status == 503 }" } } }
do: [{ b: { try: [{ c: { set: {} } }], catch: { as: ${as}, retry: r } } }]`)
  expect(source('problem')).toEqual([])
  expect(source('other')).toEqual([expect.stringMatching(/^expression_invalid 2:/)])
})

test('timeout: may be an expression, of a task or of the flow', () => {
  const ir = compiled(`${HEAD}timeout: { after: P1W }
do: [{ a: { set: {}, timeout: { after: "\${ .limit }" } } }]`)
  expect(ir.timeoutMs).toBe(604_800_000)
  expect(ir.do[0]?.timeoutMs).toMatchObject({ expression: { op: 'index' } })
})

const FUNCTIONS = `use:
  functions:
    double: { set: { twice: "\${ .value + .value }", input: "\${ $input.value }" } }
    quadruple:
      do:
        - once: { call: double, with: { value: "\${ .value }" } }
        - again: { call: double, with: { value: "\${ .twice }" } }
`

test('function: runs as its task with the arguments as input, or with the input of the call', async () => {
  const { result, steps, events } = await trace(
    `${HEAD}${FUNCTIONS}do:
  - start: { call: quadruple, input: { from: .inner }, with: { value: "\${ $input.n }" } }
  - more: { call: double, input: { from: "\${ {value: .twice} }" }, output: { as: .twice } }`,
    { input: { inner: { n: 3 } } },
  )
  expect(result).toEqual({ status: 'completed', output: 24 })
  expect(steps.slice(0, 3)).toEqual(['start', 'with', 'quadruple'])
  const pointers = new Set(events.map(({ step }) => step.pointer))
  expect(pointers).toContain('/use/functions/quadruple/do/0/once')
  expect(pointers).toContain('/do/0/start/with')
})

test('function: cannot read variables of its caller', () => {
  const source = `use: { functions: { f: { set: { a: "\${ $item }" } } } }
do: [{ l: { for: { in: .x }, do: [{ c: { call: f } }] } }]`
  expect(faultsOf(source)).toEqual([expect.stringMatching(/^expression_invalid 2:/)])
})

test('extensions: apply to each task of their kind, but not to tasks of extensions', () => {
  const [a, b, c] = tasksOf(`use:
  functions: { f: { set: {} } }
  extensions:
    - log: { extend: all, when: "\${ $task.name != \\"x\\" }", before: [{ say: { call: f } }] }
    - slow: { extend: set, after: [{ rest: { wait: PT1S } }] }
    - both: { extend: composite, after: [{ rest: { wait: PT1S } }] }
do:
  - a: { set: {} }
  - b: { wait: PT1S }
  - c: { do: [{ d: { call: f } }] }`)
  const names = (node: TaskNode | undefined) => node?.extensions?.map(({ name }) => name)
  expect([names(a), names(b), names(c)]).toEqual([['log', 'slow'], ['log'], ['log', 'both']])
  const [log] = a?.extensions ?? []
  expect(log?.before?.[0]).toMatchObject({ kind: 'do', pointer: '/use/extensions/0/log/before/0/say' })
  expect(JSON.stringify(log?.before)).not.toContain('extensions":')
  const { tasks = [] } = (c?.body ?? {}) as { tasks?: TaskNode[] }
  expect(names(tasks[0])).toEqual(['log'])
})

test('function called by an extension: is not extended, even if called elsewhere', async () => {
  const { result, steps } = await trace(
    `${HEAD}use:
  functions: { note: { set: { noted: true } } }
  extensions: [{ log: { extend: all, before: [{ say: { call: note } }] } }]
do: [{ a: { call: note } }]`,
    { input: {} },
  )
  expect(result).toEqual({ status: 'completed', output: { noted: true } })
  expect(steps).toEqual(['a', 'say', 'note', 'note', 'say', 'note'])
})

test('timeout expression: limits the task to its result', async () => {
  const source = (limit: string) =>
    `${HEAD}do: [{ a: { wait: PT10S, timeout: { after: "\${ .limit }" } } }]`.replace('.limit', limit)
  const run = async (limit: string, input: object) =>
    (await trace(source(limit), { input: input as Json })).result
  expect(await run('.limit', { limit: 'PT11S' })).toMatchObject({ status: 'completed' })
  expect(await run('{seconds: .n}', { n: 9 })).toMatchObject({ error: { status: 408 } })
  for (const limit of ['soon', 'PT0S', 5, null, { seconds: 0 }, { weeks: 1 }, { seconds: -1 }])
    expect(await run('.limit', { limit })).toMatchObject({ error: { title: 'Expression error' } })
})

test.each([
  ['basic', '{ basic: { username: u, password: "${ $secrets.pw }" } }', ['pw']],
  ['bearer', '{ bearer: { token: "${ .token }" } }', []],
  ['digest', '{ digest: { use: login } }', ['login']],
  ['oauth2', '{ oauth2: { authority: "https://a.test", grant: client_credentials, client: { id: x } } }', []],
  ['oidc', '{ oidc: { use: login } }', ['login']],
  ['bearer', '{ use: known }', ['pw']],
])('authentication by %s: %s', (scheme, authentication, secrets) => {
  const { ir, diagnostics } = compile(
    `${HEAD}use: { secrets: [pw, login], authentications: { known: { bearer: { token: "\${ $secrets.pw }" } } } }
do: [{ a: { call: http, with: { method: get, endpoint: { uri: "https://x.test", authentication: ${authentication} } } } }]`,
    { catalogue: CATALOGUE },
  )
  expect(diagnostics).toEqual([])
  expect(ir?.do[0]?.body).toMatchObject({ authentication: { scheme } })
  expect(ir?.secrets).toEqual(['pw', 'login'])
  expect(ir?.facts.secrets).toEqual(secrets)
})

test('functions of the platform: may be named with their catalogue', () => {
  for (const name of ['collection.get', 'collection.get@default', 'collection.get:1.0.0@default']) {
    const [task] = tasksOf(`do: [{ a: { call: "${name}", with: { name: n, id: i } } }]`)
    expect(task?.body).toMatchObject({ function: 'collection.get' })
  }
})

const http = (authentication: string) =>
  `do: [{ a: { call: http, with: { method: get, endpoint: { uri: "https://x.test", authentication: ${authentication} } } } }]`
const one = 'do: [{ a: { set: {} } }]'

test.each([
  [
    'use: { errors: { tee: {type: urn:x, status: 1} } }\ndo: [{ a: { raise: { error: tea } } }]',
    'unknown_reference 3:29 Did you mean tee?',
  ],
  ['do: [{ a: { raise: { error: tea } } }]', 'unknown_reference 2:29'],
  ['do: [{ a: { set: {}, timeout: tea } }]', 'unknown_reference 2:31'],
  ['do: [{ a: { try: [{ b: { set: {} } }], catch: { retry: tea } } }]', 'unknown_reference 2:56'],
  [
    'use: { functions: { fetch: { set: {} } } }\ndo: [{ a: { call: fetsh } }]',
    'unknown_function 3:19 Did you mean fetch?',
  ],
  ['use: { functions: { f: { call: f } } }\ndo: [{ a: { call: f } }]', 'circular_reference 2:32'],
  [
    `use: { functions: { f: { do: [{ x: { call: g } }] }, g: { call: f } } }\n${one}`,
    'circular_reference 2:65',
  ],
  [`use: { functions: { f: { sett: {} } } }\n${one}`, 'task_kind_missing 2:26 Did you mean set?'],
  [`use: { errors: { e: { type: urn:x } } }\n${one}`, 'missing_key 2:21'],
  [`use: { retries: { r: { dellay: PT1S } } }\n${one}`, 'unknown_key 2:24 Did you mean delay?'],
  [`use: { timeouts: { t: { after: soon } } }\n${one}`, expect.stringMatching(/^duration_invalid 2:32/)],
  [
    `use: { secrets: [a, a, 5, "b c"] }\n${one}`,
    'value_invalid 2:21',
    expect.stringMatching(/^wrong_type 2:24/),
    'value_invalid 2:27',
  ],
  [`use: { secret: [] }\n${one}`, 'unknown_key 2:8 Did you mean secrets?'],
  [
    `use: { extensions: [{ e: { extend: sets, before: [{ b: { set: {} } }] } }] }\n${one}`,
    'value_invalid 2:36 Did you mean set?',
  ],
  [`use: { extensions: [{ e: { extend: set } }] }\n${one}`, 'missing_key 2:23'],
  [
    `use: { extensions: [{ e: { extend: set, before: [{ b: { st: {} } }] } }] }\n${one}`,
    'task_kind_missing 2:57 Did you mean set?',
  ],
  [`use: { catalogs: { default: { endpoint: "https://x.test" } } }\n${one}`, 'value_invalid 2:20'],
  [
    'use: { catalogs: { far: { endpoint: { uri: "https://x.test" } } } }\ndo: [{ a: { call: "log:1@far" } }]',
    expect.stringMatching(/^unsupported_catalog 3:19/),
  ],
  ['do: [{ a: { call: "log:1@far" } }]', expect.stringMatching(/^unknown_reference 2:19/)],
  [
    'do: [{ a: { call: "https://x.test/function.yaml" } }]',
    expect.stringMatching(/^unsupported_catalog 2:19/),
  ],
  [
    'do: [{ a: { call: "collection.get:9@default" } }]',
    'unknown_function 2:19 Write collection.get:1.0.0@default.',
  ],
  [http('{ use: nobody }'), 'unknown_reference 2:104'],
  [http('{ basic: { use: nothing } }'), 'unknown_reference 2:113'],
  [
    http('{ basic: { username: u, pass: p } }'),
    'missing_key 2:106',
    'unknown_key 2:121 Known here: username, password, use.',
  ],
  [http('{ basic: { use: s }, bearer: { use: s } }'), 'value_invalid 2:118'],
  [
    http('{ oauth2: { authority: x, grant: clint_credentials } }'),
    'value_invalid 2:120',
    'value_invalid 2:130 Did you mean client_credentials?',
  ],
  [
    http('{ oidc: { authority: "https://x.test", grant: password } }'),
    'missing_key 2:105',
    'missing_key 2:105',
  ],
  ['do: [{ a: { set: { b: "${ $secrets.pw }" } } }]', 'unknown_reference 2:23'],
  [
    'use: { secrets: [password] }\ndo: [{ a: { if: $secrets.pasword == "", set: {} } }]',
    'unknown_reference 3:17 Did you mean password?',
  ],
  [
    'use: { secrets: [pw] }\ndo: [{ a: { set: { b: "${ $secrets }" } } }]',
    expect.stringMatching(/^secret_not_named 3:23/),
  ],
  [
    'use: { secrets: [pw] }\ndo: [{ a: { set: { b: "${ $secrets[.x] }" } } }]',
    expect.stringMatching(/^secret_not_named 3:23/),
  ],
])('%s: yields the expected diagnostics', (source, ...diagnostics) => {
  expect(faultsOf(source)).toEqual(diagnostics)
})

test.each([
  ['$secrets["pw"]', []],
  ['$secrets."pw"', []],
  ['$secrets.pw?', []],
  ['[.[] | {a: $secrets.pw}] | map("\\(.a) \\($secrets.pw)")', []],
  ['def f: $secrets.pw; . as [$x] | reduce $x as $y (0; f)', []],
  ['$secrets | .pw', ['secret_not_named']],
  ['$secrets[]', ['secret_not_named']],
  ['$secrets | to_entries', ['secret_not_named']],
  ['{$secrets}', ['secret_not_named']],
  ['"pw" as $name | $secrets[$name]', ['secret_not_named']],
  ['def f($s): $s; f($secrets)', ['secret_not_named']],
  ['[.a, ($secrets | getpath(["pw"]))]', ['secret_not_named']],
  ['try $secrets.other catch .', ['unknown_reference']],
])('expression that reads secrets: %s', (expression, codes) => {
  const source = `${HEAD}use: { secrets: [pw] }\ndo:\n  - a:\n      set:\n        b: >-\n          \${ ${expression} }`
  const { ir, diagnostics } = compile(source, { catalogue: CATALOGUE })
  expect(diagnostics.map(({ code }) => code)).toEqual(codes)
  if (codes.length === 0) expect(ir?.facts.secrets).toEqual(['pw'])
})

test('functions that double each other: are rejected before they are expanded', () => {
  const functions = Array.from({ length: 25 }, (_, i) => {
    const inner = i === 0 ? 'set: {}' : `do: [{ a: { call: f${i - 1} } }, { b: { call: f${i - 1} } }]`
    return `    f${i}: { ${inner} }`
  })
  const before = threadMs()
  expect(faultsOf(`use:\n  functions:\n${functions.join('\n')}\ndo: [{ a: { call: f24 } }]`)).toEqual([
    expect.stringMatching(/^compiled_too_large 1:1/),
  ])
  expect(threadMs() - before).toBeLessThan(2_000)
})

test('chain of functions: is bounded', () => {
  const functions = Array.from({ length: 400 }, (_, i) => `    f${i}: { call: f${i + 1} }`)
  const source = `use:\n  functions:\n${functions.join('\n')}\n    f400: { set: {} }\ndo: [{ a: { call: f0 } }]`
  expect(faultsOf(source)[0]).toMatch(/^nesting_too_deep /)
})
