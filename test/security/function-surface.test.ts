/** Pins what code of functions can reach: a new version of Deno that brings more is looked at before it is used. */

import { expect, test } from 'vitest'
import { deployed, EVALUATES, resultOf } from '../support/fixtures/functions.ts'
import { createTestWorkspace } from '../support/fixtures/tenants.ts'

const DENO = `
  stderr stdout
  ChildProcess Command HttpClient PermissionStatus Permissions addSignalListener build chdir chmod chmodSync chown chownSync connect
  connectTls copyFile copyFileSync cpuUsage create createHttpClient createSync cwd env errors exit exitCode gid hostname
  inspect jupyter kill link linkSync listen listenTls loadavg lstat lstatSync makeTempDir makeTempDirSync makeTempFile
  makeTempFileSync memoryUsage mkdir mkdirSync networkInterfaces noColor open openSync osRelease osUptime permissions
  readDir readDirSync readFile readFileSync readLink readLinkSync readTextFile readTextFileSync realPath realPathSync
  refTimer remove removeSignalListener removeSync rename renameSync resolveDns run Process serve serveHttp spawn spawnAndWait
  spawnAndWaitSync startTls stat statSync symlink symlinkSync systemMemoryInfo truncate truncateSync uid umask
  unrefTimer upgradeWebSocket utime utimeSync version watchFs writeFile writeFileSync writeTextFile writeTextFileSync`

const names = (text: string) => text.trim().split(/\s+/).toSorted()

test('code: reaches the pinned members of Deno, no internals, no GPU, no standard streams', async () => {
  const workspace = await createTestWorkspace()
  const id = await deployed(workspace, EVALUATES)
  const value = (run: string) => resultOf(workspace.service, id, { run })
  expect((await value('Reflect.ownKeys(Deno).map(String)')).toSorted()).toEqual(names(DENO))
  expect(
    await value('[typeof Deno[Symbol.for("Deno.internal")], typeof Deno.core, typeof navigator.gpu]'),
  ).toEqual(['undefined', 'undefined', 'undefined'])
  expect(await value('Object.keys(process)')).toEqual(['env', 'exit', 'nextTick'])
  expect(await value('Reflect.ownKeys(Navigator.prototype).map(String)')).toEqual(
    expect.not.arrayContaining(['gpu']),
  )
  const odd = await value(
    'Object.getOwnPropertyNames(globalThis).filter((name) => /^(GPU|Image|Offscreen|Worker|process$|require$)/.test(name))',
  )
  expect(odd).toEqual(['process'])
})

test('workers: none is started, since its realm would have all that is removed here', async () => {
  const workspace = await createTestWorkspace()
  const id = await deployed(workspace, EVALUATES)
  const code = 'postMessage([typeof Deno[Deno.internal], typeof navigator.gpu, typeof Deno.stdin])'
  const run = `new Promise((seen) => {
    new Worker(${JSON.stringify(`data:text/javascript,${code}`)}, { type: 'module' }).onmessage = ({ data }) => seen(data)
  })`
  expect(await resultOf(workspace.service, id, { run })).toEqual({ detail: 'Worker is not defined' })
})

test('modules of Node: none is loaded, by whatever specifier', async () => {
  const workspace = await createTestWorkspace()
  const id = await deployed(workspace, EVALUATES)
  for (const name of [
    'v8',
    'module',
    'process',
    'fs',
    'child_process',
    'worker_threads',
    'vm',
    'sqlite',
    'wasi',
  ])
    for (const specifier of [`node:${name}`, name])
      expect(
        await resultOf(workspace.service, id, { run: `import(${JSON.stringify(specifier)})` }),
      ).toMatchObject({
        detail: expect.stringMatching(
          /cannot import modules of Node|not a dependency|Relative import|Import/i,
        ),
      })
})
