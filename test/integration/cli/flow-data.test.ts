// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** CLI commands for definitions, steps, data and triggers of flows, typed by a user, against the running platform. */

import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const BOOTSTRAP = resolve('stack/bootstrap.mjs')
let workspace: TestWorkspace
let executions: Executions
let folder: string
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-data-'))
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
  env = operatorEnv(workspace)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs a command with this standard input. */
const tenonWith = (input: string, ...args: string[]) => runCommand(args, { env, callerDir: folder, input })
const tenon = (...args: string[]) => tenonWith('', ...args)

const SOURCE = (name: string, more = '') =>
  `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${more}do:\n  - a: { set: { x: 1 } }\n`

test('publish: document in flow style, twice: unchanged source gets no new version, a change and --force do', async () => {
  const file = join(folder, 'twice.yaml')
  await writeFile(file, SOURCE('twice'))
  expect((await tenon('flow', 'publish', file)).stdout).toMatch(/^twice v1 [0-9a-f]{12} /)
  expect(await tenon('flow', 'publish', file)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^twice v1 unchanged /),
  })
  await writeFile(file, SOURCE('twice').replace('x: 1', 'x: 2'))
  expect(await tenon('flow', 'publish', file)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^twice v2/),
  })
  expect((await tenon('flow', 'publish', file, '--force')).stdout).toMatch(/^twice v3/)
  expect((await tenon('flow', 'definitions')).stdout).toMatch(/^twice +v3 +published /m)
  expect((await tenon('flow', 'delete', 'twice')).stdout).toMatch(/^flow_\S+ deleted\n$/)
  expect((await tenon('flow', 'definitions')).stdout).not.toContain('twice')
})

test('publish: folder with a webhook: every flow, with the address and the secret once', async () => {
  await mkdir(join(folder, 'all/below'), { recursive: true })
  await writeFile(join(folder, 'all/one.yaml'), SOURCE('one'))
  await writeFile(join(folder, 'all/one.cases.yaml'), '- name: a\n')
  await writeFile(join(folder, 'all/below/hook.yaml'), SOURCE('hook', 'schedule: { webhook: {} }\n'))
  const first = await tenon('flow', 'publish', '-f', 'all')
  expect(first.stdout).toMatch(
    /^hook v1 .*\n {2}webhook \S+: http\S+\n {2}secret, shown only once: \S+\none v1 /,
  )
  const again = await tenon('flow', 'publish', '-f', 'all')
  expect(again.stdout.match(/unchanged/g)).toHaveLength(2)
  const [, id = ''] =
    /^(trg_\S+) +webhook +hook v1 +active +http/m.exec((await tenon('trigger', 'list')).stdout) ?? []
  expect(JSON.parse((await tenon('trigger', 'pause', id)).stdout)).toMatchObject({ paused: true })
  expect(JSON.parse((await tenon('trigger', 'rotate-secret', id)).stdout)).toMatchObject({
    secret: expect.any(String),
  })
  expect(JSON.parse((await tenon('trigger', 'resume', id)).stdout)).toMatchObject({ paused: false })
  expect(await tenon('trigger', 'test', id, '{type: a}')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no such event trigger'),
  })
  expect((await tenon('flow', 'publish')).stderr).toContain('Name a file')
})

test('secrets and schedules: set from stdin, listed without values; paused with a note', async () => {
  expect((await tenonWith('a-long-secret\n', 'secret', 'set', 'key')).code).toBe(0)
  expect(
    (await tenonWith('{user: long-enough, password: long-enough}', 'secret', 'set', 'login', '-', '--json'))
      .code,
  ).toBe(0)
  const short = await tenonWith('ab', 'secret', 'set', 'short')
  expect([short.code, short.stderr]).toEqual([1, expect.stringMatching(/\n {2}\/value \S.*\n/)])
  expect(short.stderr).not.toContain('See `errors`')
  const listed = await tenon('secret', 'list')
  expect(listed.stdout).toMatch(/^key .*\nlogin /m)
  expect(listed.stdout).not.toContain('long')
  expect((await tenon('secret', 'delete', 'login')).stdout).toContain('"deleted": true')
  await writeFile(join(folder, 'cron.yaml'), SOURCE('cron', 'schedule: { cron: 0 0 1 1 * }\n'))
  await tenon('flow', 'publish', 'cron.yaml')
  const [, id = ''] =
    /^(trg_\S+) +schedule +cron v1 +active/m.exec((await tenon('schedule', 'list')).stdout) ?? []
  const paused = await tenon('schedule', 'pause', id, '--note', 'holidays')
  expect(JSON.parse(paused.stdout)).toMatchObject({ paused: true, note: 'holidays' })
  expect((await tenon('schedule', 'list')).stdout).toMatch(/cron v1 +paused/)
  expect(JSON.parse((await tenon('schedule', 'resume', id)).stdout)).toMatchObject({ paused: false })
  const started = JSON.parse((await tenon('schedule', 'trigger', id)).stdout)
  expect(started).toMatchObject({ flow_name: 'cron', trigger: { kind: 'schedule', id } })
})

test('JSON arguments: text, @file and stdin: the same input; a bad one: one line', async () => {
  const flow = await executions.publish('  - a: { set: { n: "${ .n }" } }')
  await writeFile(join(folder, 'input.yaml'), 'n: 2\n')
  const outputs = [
    await tenon('flow', 'run', flow, '--wait', '--input', '{"n": 1}'),
    await tenon('flow', 'run', flow, '--wait', '--input', '@input.yaml'),
    await tenonWith('{n: 3}', 'flow', 'run', flow, '--wait', '--input', '-'),
  ]
  expect(outputs.map(({ stdout }) => JSON.parse(stdout))).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  const bad = await tenon('flow', 'run', flow, '--input', '{"n": ')
  expect([bad.code, bad.stderr]).toEqual([1, expect.stringMatching(/^The input: /)])
  const named = await tenon('flow', 'run', flow, '--input', 'input.yaml')
  const text = 'The input is the text input.yaml. Write @input.yaml to read the file.\n'
  expect([named.code, named.stderr]).toEqual([1, text])
})

test('signal, skip and patch: an execution that listens and one that is held: go on', async () => {
  const listens = await executions.start(
    await executions.publish('  - heard: { listen: { to: { one: { with: { type: go } } } } }'),
  )
  await executions.shown(listens, 'waiting')
  expect((await tenon('flow', 'signal', listens, 'go', '--data', '{a: 1}')).stdout).toMatch(/^evt_\S+\n$/)
  expect(await executions.ended(listens)).toMatchObject({ status: 'completed' })
  const held = await executions.start(
    await executions.publish("  - bad: { set: { x: '${ .n | keys }' } }", { more: 'onFault: hold\n' }),
    { input: { n: 1 } },
  )
  await executions.shown(held, 'suspended')
  expect((await tenon('flow', 'patch', held, '--input', '{n: 2}')).code).toBe(0)
  expect((await tenon('flow', 'skip', held, '--step', 'bad', '--output', '{y: 2}')).code).toBe(0)
  expect(await executions.ended(held)).toMatchObject({ status: 'completed', output: { y: 2 } })
})

test('show --data, steps, simulate --from-run: values of the execution, its own id and time', async () => {
  const flow = await executions.publish(
    "  - first: { set: { id: '${ $workflow.id }', at: '${ $workflow.startedAt.iso8601 }', n: '${ .n }' } }",
  )
  const id = await executions.start(flow, { input: { n: 7 } })
  const { output } = await executions.shown(id, 'completed')
  expect(output.id).toBe(id)
  const printed = await tenon('flow', 'show', id, '--step', 'first#0')
  expect(printed.stdout).toBe(
    `first#0  completed\n  input: {"n":7}\n  output: ${JSON.stringify({ n: 7, at: output.at, id })}\n`,
  )
  expect((await tenon('flow', 'show', id, '--data')).stdout).toMatch(/^✓ .*\n.*first.*\nfirst#0 /)
  expect((await tenon('flow', 'steps', id)).stdout).toMatch(/^STEP .*\nfirst#0 +completed +1 /)
  expect((await tenon('flow', 'show', id, '--step', 'nothing')).stderr).toContain('no step nothing')
  const simulated = await tenon('flow', 'simulate', '--from-run', id)
  expect([simulated.code, JSON.parse(simulated.stdout)]).toEqual([0, output])
})

test('show: more than 1,000 steps: agrees with watch; a reader that stops early: no stack trace', async () => {
  const flow = await executions.publish(`  - each:
      for: { each: n, in: '\${ [range(1500)] }', onError: continue }
      do:
        - odd: { if: '\${ $n % 100 == 99 }', raise: { error: { type: 'https://x.test/odd', status: 400, title: Odd } } }
  - last: { set: { done: true } }`)
  const id = await executions.start(flow)
  await executions.shown(id, 'completed')
  const output = await tenon('flow', 'show', id)
  expect(output.stdout).toMatch(/odd .*×1500 {2}15 faulted/)
  expect(output.stdout).toMatch(/last /)
  const watched = await tenon('flow', 'watch', id)
  expect(watched.stderr.match(/ faulted +odd/g)).toHaveLength(15)
  const piped = spawn(
    'sh',
    ['-c', `"${process.execPath}" "${BOOTSTRAP}" flow steps ${id} --json | head -1`],
    {
      cwd: folder,
      env,
    },
  )
  let stderr = ''
  piped.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  await new Promise((done) => piped.once('close', done))
  expect(stderr).toBe('')
})

test('test --junit: passed and failed cases: an XML file', async () => {
  await writeFile(join(folder, 'case.yaml'), SOURCE('case'))
  await writeFile(
    join(folder, 'case.cases.yaml'),
    `- { name: "a & b", expect: { output: { x: 1 } } }
- { name: wrong, expect: { output: { x: "<2>" } } }
- { name: typo, mocks: { kep: { output: 1 } }, expect: { output: { x: 1 } } }
- { nam: unnamed }
- 5
`,
  )
  expect((await tenon('flow', 'test', 'case.yaml', '--junit', 'out.xml')).code).toBe(1)
  const xml = await readFile(join(folder, 'out.xml'), 'utf8')
  expect(xml).toContain('<testsuites tests="5" failures="4">')
  expect(xml).toContain('name="a &amp; b"/>')
  expect(xml).toContain('name="typo"><failure message="/mocks/kep">/mocks/kep: No task, function')
  expect(xml).toContain('name="case 4"><failure message="/nam">/nam: The key `nam` is not known.')
  expect(xml).toContain('name="case 5"><failure message="It must be a mapping.">It must be a mapping.<')
  expect(xml).toMatch(/name="wrong"><failure message="[^"]*">[^<]*&lt;2&gt;[^<]*<\/failure>/)
})
