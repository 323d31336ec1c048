/** Tests that the CLI prints every warning of an answer on stderr, whatever the command prints of it. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

const declared = (rule: object) =>
  JSON.stringify({ collection: 'own', store: 'relational', schema: {}, access: { user: rule } })
const config = JSON.stringify({ secrets: ['NOPE'] })

/** The commands whose answers have warnings, with the file that they read. */
const COMMANDS: readonly (readonly [readonly string[], string, RegExp])[] = [
  [['schema', 'apply', 'own.json'], declared({ read: true }), /^warning: \/access\/user\/read: Every user/m],
  [
    ['schema', 'update', 'own.json'],
    declared({ read: true, delete: true }),
    /^warning: \/access\/user\/delete: Every user/m,
  ],
  [
    ['fn', 'deploy', 'hi.ts', '--config', config],
    'export default () => 1\n',
    /^warning: .*The workspace has no secret `NOPE` yet/m,
  ],
]

test('commands whose answer has warnings: each warning is on stderr, and the exit code is 0', async () => {
  const workspace = await createTestWorkspace()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-warnings-'))
  try {
    for (const [args, text, warning] of COMMANDS) {
      await writeFile(join(dir, args[2] ?? ''), text)
      const { code, stderr } = await runCommand([...args], { env: operatorEnv(workspace), callerDir: dir })
      expect([args[1], code, stderr]).toEqual([args[1], 0, expect.stringMatching(warning)])
    }
  } finally {
    await rm(dir, { recursive: true })
  }
})
