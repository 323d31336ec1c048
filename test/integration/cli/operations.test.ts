/** `tenon operation`: what a command shows of long-running work, on a terminal and elsewhere, and through a restart of the API. */

import { beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { startCli, startOnTerminal } from '../../support/clients/cli-process.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { startTcpProxy } from '../../support/servers/tcp-proxy.ts'

let workspace: TestWorkspace
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  workspace = await createTestWorkspace()
  env = operatorEnv(workspace)
})

/** Begins the purge of another workspace, at once or in a week. @returns its operation */
async function startPurge(graceDays: number) {
  const { workspaceId } = await addTestWorkspace(workspace)
  const path = `/v1/workspaces/${workspaceId}?grace_days=${graceDays}`
  const { status, body } = await call('DELETE', path, { as: workspace.operator })
  expect(status).toBe(202)
  return body
}
const read = async (id: string) =>
  (await call('GET', `/v1/operations/${id}`, { as: workspace.operator })).body

test('operation watch: without a terminal: each step once with its last state, the JSON of the API alone on stdout', async () => {
  const { id, target } = await startPurge(0)
  const { code, stdout, stderr } = await runCommand(['operation', 'watch', id, '--json'], { env })
  const ended = await read(id)
  expect([code, JSON.parse(stdout)]).toEqual([0, ended])
  const lines = stderr.trimEnd().split('\n')
  expect(lines.at(-1)).toBe(`✓ workspace.delete ${target}  succeeded  ${id}`)
  for (const { name } of ended.steps)
    expect(
      lines.filter((line) => line === `  ✓ ${name}  succeeded`),
      name,
    ).toHaveLength(1)
  expect(new Set(lines).size).toBe(lines.length)
  expect(stderr).not.toContain('\u001b')
  const shown = await runCommand(['operation', 'show', id], { env })
  expect(shown.stdout).toMatch(new RegExp(`^id +${id}$[^]*^steps\\.finish_purge +succeeded$`, 'm'))
})

test('operation watch: on a terminal: the steps are redrawn in place with their last states', async () => {
  const { id, target } = await startPurge(7)
  const terminal = startOnTerminal(['operation', 'watch', id], env)
  await eventually(async () => (terminal.sent().includes('queued') ? true : undefined), 30_000)
  // Its time comes now.
  await call('DELETE', `/v1/workspaces/${target}?grace_days=0`, { as: workspace.operator })
  expect(await terminal.ended).toBe(0)
  const screen = terminal.screen()
  const { steps } = await read(id)
  const [head, ...drawn] = screen.slice(0, steps.length + 1)
  expect(head).toBe(`✓ workspace.delete ${target}  succeeded  ${id}`)
  expect(drawn).toEqual(steps.map((step: { name: string }) => `  ✓ ${step.name}  succeeded`))
  expect(screen.join('\n')).not.toMatch(/queued|running/)
})

test('operation watch: API away for a while: goes on when it is back; Ctrl-C: the operation goes on', async () => {
  const { url } = inject('tenon')
  const first = await startTcpProxy(new URL(url))
  const { id } = await startPurge(7)
  const settings = { ...env, TENON_URL: `http://127.0.0.1:${first.port}` }
  const watching = startCli(['operation', 'watch', id], { env: settings, callerDir: process.cwd() })
  await eventually(async () => (watching.stderr().includes('queued') ? true : undefined), 30_000)
  first.close()
  await eventually(async () => (watching.stderr().includes('does not answer') ? true : undefined), 30_000)
  const second = await startTcpProxy(new URL(url), { port: first.port })
  try {
    await eventually(
      async () => (watching.stderr().match(/queued/g)?.length === 2 ? true : undefined),
      30_000,
    )
    expect(await watching.stop()).toBe(130)
    expect([watching.stdout(), watching.stderr()]).toEqual([
      '',
      expect.stringMatching(new RegExp(`\\n${id} goes on\\. To watch it: tenon operation watch ${id}\\n$`)),
    ])
  } finally {
    second.close()
  }
  const refused = await runCommand(['operation', 'watch', id], { env: settings })
  expect(refused).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('No server answers') })
})

test('operation list: JSON Lines are the items of all pages; a limit ends it', async () => {
  const ids = [(await startPurge(7)).id, (await startPurge(7)).id]
  const { stdout } = await runCommand(['operation', 'list', '--json'], { env })
  const items = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  for (const id of ids) expect(items.find((item) => item.id === id)).toEqual(await read(id))
  const table = await runCommand(['operation', 'list', '--limit', '1'], { env })
  expect(table.stdout).toMatch(/^OPERATION +TYPE +TARGET +STATE +CREATED +FINISHED +ERROR\nop_\S+ [^\n]+\n$/)
})
