/** `tenon fn`: deploys and invokes a file, and reports errors like a compiler. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('fn: deploy, invoke, compile error, failure: result, file:line:column, log', async () => {
  const env = operatorEnv(await createTestWorkspace())
  const tenon = (...args: string[]) => runCommand(['fn', ...args], { env })
  const dir = await mkdtemp(join(tmpdir(), 'tenon-fn-'))
  try {
    const file = join(dir, 'greet.ts')
    await writeFile(file, 'export default (name: string) => ({ hello: name })')
    expect((await tenon('deploy', file)).stdout).toMatch(/^greet v1 [0-9a-f]{12} \(fn_\w+\)\n$/)
    expect((await tenon('deploy', file)).stdout).toMatch(/^greet v1 unchanged \(fn_\w+\)\n$/)
    for (const version of ['v2 [0-9a-f]{12}', 'v2 unchanged']) {
      const { stdout } = await tenon('deploy', file, '--config', '{"timeout": "9s"}')
      expect(stdout).toMatch(new RegExp(`^greet ${version} `))
    }
    for (const config of ['5', 'null', '[]']) {
      const refused = await tenon('deploy', file, '--config', config)
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(`configuration is ${config}.`),
      })
    }
    const unset = await tenon('deploy', file, '--config', '{"concurrency": null, "schedule": null}')
    expect(unset.stdout).toMatch(/^greet v2 unchanged /)
    expect((await tenon('deploy', file, '--force')).stdout).toMatch(/^greet v3 [0-9a-f]{12} /)
    const invoked = await tenon('invoke', 'greet', '--input', '"Ada"')
    expect(JSON.parse(invoked.stdout)).toEqual({ hello: 'Ada' })
    await writeFile(file, 'export default () => {\n  console.log("so far"); throw new Error("no")\n}')
    for (const version of ['v1 [0-9a-f]{12}', 'v1 unchanged']) {
      const warned = await tenon('deploy', file, '--name', 'sealed', '--config', '{"secrets": ["absent"]}')
      expect(warned.stdout).toMatch(new RegExp(`^sealed ${version} `))
      expect(warned.stderr).toMatch(/^warning: .*The workspace has no secret `absent`\. Runs fail/)
    }
    await tenon('deploy', file, '--name', 'bad')
    const failed = await tenon('invoke', 'bad')
    expect(failed).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^\| so far\nfunction_error at (\S+:)?2:\d+: no\n {2}request /),
    })
    await writeFile(file, 'export default (')
    const faulty = await tenon('deploy', file)
    expect(faulty).toMatchObject({ code: 1, stderr: `${file}:1:17 Unexpected end of file\n` })
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})

test('fn invoke: service key of another workspace than that of the option or TENON_WORKSPACE_ID: refused', async () => {
  const own = await createTestWorkspace()
  const env = operatorEnv(own)
  const refused = {
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(`belongs to the workspace ${own.workspaceId}, not to ws_x. Create a key`),
  }
  expect(await runCommand(['fn', 'invoke', 'greet', '--workspace', 'ws_x'], { env })).toMatchObject(refused)
  const other = { env: { ...env, TENON_WORKSPACE_ID: 'ws_x' } }
  expect(await runCommand(['fn', 'invoke', 'greet'], other)).toMatchObject(refused)
  expect(await runCommand(['event', 'publish', 'a.b', '1'], other)).toMatchObject(refused)
})
