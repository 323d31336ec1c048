/** Runs the example of deletions in docs/schemas.md in a shell: what is refused, what goes along, and what stays. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('example of projects: declared by the command line, each request as the page says', async () => {
  const [, block = ''] =
    /### Deleting what belongs together\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(
      await readFile('docs/schemas.md', 'utf8'),
    ) ?? []
  const [, file = '', json = ''] = /^cat > (\S+) <<'EOF'\n([\s\S]*?)^EOF\n/m.exec(block) ?? []
  const [, verb = '', requests = ''] = /^npx tenon (.*)\n([\s\S]*)$/m.exec(block) ?? []
  const env = operatorEnv(await createTestWorkspace())
  const dir = await mkdtemp(join(tmpdir(), 'tenon-projects-'))
  try {
    await writeFile(join(dir, file), json)
    const applied = await runCommand(verb.split(' '), { env, callerDir: dir })
    expect([applied.code, applied.stderr]).toEqual([0, ''])
    const script = requests.replaceAll(/^(delete .*)$/gm, '$1\necho')
    const { stdout } = await promisify(execFile)('sh', ['-c', script], { env })
    const [refused, invoice, project, tasks, comments, files] = stdout
      .split('\n')
      .filter((line) => /^[{[]/.test(line))
      .map((line) => JSON.parse(line))
    expect(refused).toMatchObject({
      code: 'reference_in_use',
      referring: [{ collection: 'invoices', id: invoice.id }],
    })
    expect(project).toMatchObject({ deleted: true })
    expect([tasks, comments]).toEqual([[], []])
    expect(files).toMatchObject([{ name: 'plan.pdf', project_id: null, _version: 2 }])
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
