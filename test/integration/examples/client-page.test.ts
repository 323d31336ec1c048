/** Runs the blocks of docs/client.md as one program, with the types that `tenon types` writes, after the compiler has accepted it. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'

const ROOT = new URL('../../../', import.meta.url).pathname

test('the program of the page compiles and does what the page says', async () => {
  const page = await readFile('docs/client.md', 'utf8')
  const [, declaration = ''] = /```json\n([\s\S]*?)```/.exec(page) ?? []
  const workspace = await createTestWorkspaceWithStorage()
  const env = operatorEnv(workspace)
  const dir = await mkdtemp(join(tmpdir(), 'tenon-client-page-'))
  try {
    await writeFile(join(dir, 'bookings.json'), declaration)
    expect((await runCommand(['schema', 'apply', 'bookings.json'], { env, callerDir: dir })).code).toBe(0)
    expect((await runCommand(['types', '--out', 'tenon-types.ts'], { env, callerDir: dir })).code).toBe(0)
    // Each block after the first is a scope of its own, as it is on the page.
    const [first = '', ...others] = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block = '']) => block)
    const kept = 'const { me } = { me: await tenon.me.get() }\n'
    const program = [
      first,
      ...others.map((block) => `{\n${block.includes('const me') ? '' : kept}${block}}\n`),
    ].join('\n')
    const source = program.replaceAll("'@tenon/client'", `'${ROOT}client/src/index.ts'`)
    await writeFile(join(dir, 'program.ts'), source)
    await writeFile(join(dir, 'package.json'), '{"type": "module"}')
    const compilerOptions = {
      ...{
        target: 'es2023',
        module: 'nodenext',
        lib: ['es2024'],
        types: ['node'],
        typeRoots: [`${ROOT}node_modules/@types`],
      },
      ...{ strict: true, noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true },
    }
    await writeFile(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }))
    const compiled = promisify(execFile)(join(ROOT, 'node_modules/.bin/tsc'), ['-p', dir])
    expect(
      await compiled.then(
        () => '',
        ({ stdout }: { stdout: string }) => stdout,
      ),
    ).toBe('')
    const { stdout } = await promisify(execFile)(process.execPath, [join(dir, 'program.ts')], { env })
    expect(stdout).toContain('1 1\nSomebody else has changed it.\n')
    expect(stdout).toContain('api_key')
    expect(stdout).toContain("type: 'bookings.paid'")
    expect(stdout).toMatch(/\n0\n1\n$/)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
