/** CLI commands for flow definitions: validation, graph, templates, tests, simulation. */

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { printDiagnostics } from '../../../src/cli/flows/diagnostics.ts'
import { type EndedCommand, operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let folder: string
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-flows-'))
  env = operatorEnv(await createTestWorkspace())
  await writeFile(join(folder, 'bad.yaml'), BAD)
  await writeFile(join(folder, 'good.yaml'), GOOD)
  await writeFile(join(folder, 'warned.yaml'), WARNINGS)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const GOOD = `document: { dsl: '1.0.3', namespace: test, name: good, version: '1.0.0' }
do: [{ a: { wait: PT1S, if: .x > 1, then: end } }]
`
const BAD = `document: { dsl: '1.0.3', namespace: test, name: bad, version: '1.0.0' }
do:
  - a: { swich: 1 }
  - b: { wait: soon }
`
const DIAGNOSTICS = `bad.yaml:3:10 task_kind_missing: The task \`a\` has no type. Did you mean switch?
3 |   - a: { swich: 1 }
  |          ^
bad.yaml:4:16 duration_invalid: \`soon\` is not a duration. Write {seconds: 2}, or an ISO 8601 duration of weeks, days and time: PT2S, P1DT12H.
4 |   - b: { wait: soon }
  |                ^
`

const tenon = (args: string, more: NodeJS.ProcessEnv = env, below = ''): Promise<EndedCommand> =>
  runCommand(args.split(' '), { env: more, callerDir: join(folder, below) })

/** An address without a server, and no credentials. */
const withoutServer = () => ({ ...process.env, TENON_URL: 'http://127.0.0.1:1', TENON_CLIENT_ID: '' })

const WARNINGS = `document: { dsl: '1.0.3', namespace: test, name: warned, version: '1.0.0' }
do:
  - a: { wait: PT1S, then: end }
  - b: { wait: PT1S }
`
const WARNING = `warned.yaml:4:5 warning task_unreachable: The task \`b\` is unreachable: \`a\` before it has \`then: end\`. Name the task in a \`then\`, or remove it.
4 |   - b: { wait: PT1S }
  |     ^
`

test('validate: valid but suspicious flow: warnings, with and without a server', async () => {
  const [online, offline] = await Promise.all([
    tenon('flow validate warned.yaml'),
    tenon('flow validate --offline warned.yaml', withoutServer()),
  ])
  for (const { code, stdout, stderr } of [online, offline])
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'warned.yaml: valid\n', stderr: WARNING })
  const { code, stdout } = await tenon('flow validate --offline --json warned.yaml', withoutServer())
  const warnings = [expect.objectContaining({ code: 'task_unreachable', line: 4, pointer: '/do/1/b' })]
  expect([code, JSON.parse(stdout)]).toEqual([
    0,
    [{ file: 'warned.yaml', valid: true, diagnostics: [], warnings }],
  ])
})

test('publish: flow with warnings: published with warnings; invalid flow: diagnostics, no version', async () => {
  const [warned, bad] = await Promise.all([tenon('flow publish warned.yaml'), tenon('flow publish bad.yaml')])
  expect(warned).toMatchObject({ code: 0, stderr: WARNING })
  expect(warned.stdout).toMatch(/^warned v1 /)
  expect(bad).toMatchObject({ code: 1, stdout: '', stderr: DIAGNOSTICS })
})

test('validate: several files: all diagnostics of all files, with and without a server', async () => {
  const [online, offline] = await Promise.all([
    tenon('flow validate bad.yaml good.yaml'),
    tenon('flow validate --offline bad.yaml good.yaml', withoutServer()),
  ])
  for (const { code, stdout, stderr } of [online, offline])
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: 'good.yaml: valid\n', stderr: DIAGNOSTICS })
  const { code, stdout } = await tenon('flow validate --offline --json bad.yaml good.yaml', withoutServer())
  expect([code, JSON.parse(stdout)]).toEqual([
    1,
    [
      {
        file: 'bad.yaml',
        valid: false,
        diagnostics: [
          expect.objectContaining({ code: 'task_kind_missing', line: 3, pointer: '/do/0/a/swich' }),
          expect.objectContaining({ code: 'duration_invalid', line: 4, pointer: '/do/1/b/wait' }),
        ],
        warnings: [],
      },
      { file: 'good.yaml', valid: true, diagnostics: [], warnings: [] },
    ],
  ])
  expect(await tenon('flow validate --offline none.yaml', withoutServer())).toMatchObject({ code: 1 })
})

test('colours: terminal: coloured; otherwise: plain', () => {
  const fault = {
    code: 'wrong_type',
    message: 'No.',
    line: 2,
    column: 3,
    pointer: '',
    excerpt: '2 | a\n  |   ^',
  }
  const summaryOf = (output: object) => {
    const texts: string[] = []
    printDiagnostics('f', [fault], 'error', { write: (text) => texts.push(text), ...output })
    return texts.join('')
  }
  const plain = 'f:2:3 wrong_type: No.\n2 | a\n  |   ^\n'
  expect(summaryOf({})).toBe(plain)
  expect(summaryOf({ isTTY: true, hasColors: () => false })).toBe(plain)
  const coloured = summaryOf({ isTTY: true, hasColors: () => true })
  expect(coloured).toContain('\u001b[31mwrong_type\u001b[39m')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are made of them
  expect(coloured.replaceAll(/\u001b\[\d+m/g, '')).toBe(plain)
})

test('graph: with and without a server: same Mermaid or JSON', async () => {
  const [online, offline] = await Promise.all([
    tenon('flow graph good.yaml'),
    tenon('flow graph good.yaml --offline', withoutServer()),
  ])
  expect(offline.stdout).toBe(online.stdout)
  expect(online.stdout).toMatch(/^flowchart TD\n {2}n0\(\["good"\]\)\n {2}n1\("a<br\/>wait 1 second"\)\n/)
  const json = JSON.parse((await tenon('flow graph good.yaml --format json')).stdout)
  expect(json.edges.map(({ kind }: { kind: string }) => kind)).toEqual(['next', 'end', 'next'])
  const refused = await tenon('flow graph bad.yaml')
  expect([refused.code, refused.stdout, refused.stderr]).toEqual([1, '', DIAGNOSTICS])
  expect(await tenon('flow graph good.yaml --format png')).toMatchObject({ code: 1, stdout: '' })
})

test('init: new name: a valid flow; existing file: never overwritten', async () => {
  expect((await tenon('flow init new')).stdout).toBe('new/greet.yaml\nnew/greet.cases.yaml\n')
  const written = await readFile(join(folder, 'new/greet.yaml'), 'utf8')
  expect(written).toMatch(/^# yaml-language-server: \$schema=http:\/\/\S+\/v1\/flows\/schema\.json\n/)
  expect((await tenon('flow validate new/greet.yaml')).stdout).toBe('new/greet.yaml: valid\n')
  const again = await tenon('flow init new')
  expect([again.code, again.stderr]).toEqual([1, 'The file new/greet.yaml already exists.\n'])
  expect(await readFile(join(folder, 'new/greet.yaml'), 'utf8')).toBe(written)
})

test('test: flow made by init: runs its cases, reports what is not covered', async () => {
  await tenon('flow init tested')
  const passed = await tenon('flow test', withoutServer(), 'tested')
  expect([passed.code, passed.stderr]).toEqual([0, ''])
  expect(passed.stdout).toBe(`greet.yaml
  ✓ with a name: the greeting is stored
  ✓ without a name: nothing is stored
  coverage: 4 of 4 tasks, 2 of 2 branches
2 passed
`)
  const ofFolder = await tenon('flow test tested', withoutServer())
  expect([ofFolder.code, ofFolder.stdout.split('\n')[0]]).toEqual([0, 'tested/greet.yaml'])
  await mkdir(join(folder, 'empty'))
  const empty = await tenon('flow test empty', withoutServer())
  expect([empty.code, empty.stderr]).toEqual([
    1,
    'There are no test cases in empty. Test cases are files that end in .cases.yaml.\n',
  ])
  const cases = join(folder, 'tested/greet.cases.yaml')
  const first = (await readFile(cases, 'utf8')).split("- name: 'without a name")[0] ?? ''
  await writeFile(cases, first.replace('output: { message', 'output: { massage'))
  const failed = await tenon('flow test tested/greet.yaml', withoutServer())
  expect([failed.code, failed.stdout]).toEqual([
    1,
    `tested/greet.yaml
  ✗ with a name: the greeting is stored
      output.massage
        - "Hello, Ada!"
        + nothing
      output.message
        - nothing
        + "Hello, Ada!"
  coverage: 3 of 4 tasks, 1 of 2 branches
    missed tested/greet.yaml:13:5 shrug
    missed tested/greet.yaml:9:5 known: nameless
1 of 1 failed
`,
  ])
  await writeFile(cases, '- nam: x')
  const odd = await tenon('flow test tested/greet.cases.yaml', withoutServer())
  const message = '  ✗ case 1\n      /nam: The key `nam` is not known. Did you mean name?\n'
  expect([odd.code, odd.stderr, odd.stdout]).toEqual([1, '', expect.stringContaining(message)])
  const none = await tenon('flow test good.yaml', withoutServer())
  expect([none.code, none.stderr]).toEqual([
    1,
    'The flow good.yaml has no test cases: the file good.cases.yaml does not exist.\n',
  ])
  await writeFile(cases, '- [')
  const broken = await tenon('flow test tested/greet.yaml', withoutServer())
  expect([broken.code, broken.stderr]).toEqual([1, expect.stringMatching(/^tested\/greet\.cases\.yaml: /)])
  expect(await tenon('flow test bad.yaml', withoutServer())).toMatchObject({ code: 1, stderr: DIAGNOSTICS })
})

test('simulate: flow: events on stderr, the output alone on stdout', async () => {
  await writeFile(join(folder, 'ask.yaml'), ASK)
  await writeFile(join(folder, 'mocks.yaml'), 'ask: { output: { n: 2 }, after: PT1H }\n')
  const { code, stdout, stderr } = await tenon('flow simulate ask.yaml --mocks @mocks.yaml', withoutServer())
  expect([code, JSON.parse(stdout)]).toEqual([0, { n: 2 }])
  expect(stderr).toContain('+3600.000s  completed  ask  {"n":2}\n')
  expect(stderr).toContain('completed after 1 hour 1 second of virtual time')
  const waits = await tenon('flow simulate ask.yaml', withoutServer())
  expect([waits.code, waits.stdout]).toEqual([1, ''])
  expect(waits.stderr).toContain('/do/0/ask#0 waits for the answer of collection.get. Give an answer: ')
  const json = JSON.parse(
    (await tenon('flow simulate ask.yaml --mocks @mocks.yaml --json', withoutServer())).stdout,
  )
  expect(json).toMatchObject({ status: 'completed', coverage: { tasks: { entered: 2, total: 2 } } })
  await writeFile(join(folder, 'mocks.yaml'), 'ask: 1\n')
  const odd = await tenon('flow simulate ask.yaml --mocks @mocks.yaml', withoutServer())
  expect([odd.code, odd.stderr]).toEqual([1, '/mocks/ask: An answer is {output} or {error}.\n'])
})

const ASK = `document: { dsl: '1.0.3', namespace: test, name: ask, version: '1.0.0' }
do:
  - ask: { call: collection.get, with: { name: a, id: b } }
  - pause: { wait: PT1S }
`
