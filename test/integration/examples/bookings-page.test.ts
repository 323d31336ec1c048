/** Runs the example of constraints in docs/schemas.md in a shell: the bookings that it refuses, and those that it makes. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('example of bookings: declared by the command line, each request as the page says', async () => {
  const [, block = ''] =
    /## Constraints\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(await readFile('docs/schemas.md', 'utf8')) ?? []
  const [, file = '', json = ''] = /^cat > (\S+) <<'EOF'\n([\s\S]*?)^EOF\n/m.exec(block) ?? []
  const [, verb = '', requests = ''] = /^npx tenon (.*)\n([\s\S]*)$/m.exec(block) ?? []
  const env = operatorEnv(await createTestWorkspace())
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bookings-'))
  try {
    await writeFile(join(dir, file), json)
    const applied = await runCommand(verb.split(' '), { env, callerDir: dir })
    expect([applied.code, applied.stderr]).toEqual([0, ''])
    const script = requests.replaceAll(/^(book .*)$/gm, '$1\necho')
    const { stdout } = await promisify(execFile)('sh', ['-c', script], { env })
    const replies = stdout.split('\n').filter((line) => line.startsWith('{'))
    const [ann, ...others] = replies.map((line) => JSON.parse(line))
    expect(ann).toMatchObject({ member: 'ann', status: 'open', _version: 1 })
    expect(others).toMatchObject([
      { code: 'exclusion_violation', conflicting_id: ann.id },
      { member: 'ben', _version: 1 },
      { code: 'unique_violation', conflicting_id: ann.id },
      { code: 'schema_violation', detail: 'A booking ends after it starts.' },
    ])
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
