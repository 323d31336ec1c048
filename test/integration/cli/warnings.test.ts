/** Tests that the CLI prints every warning of an answer on stderr, whatever the command prints of it. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { OPERATIONS } from '../../../src/features/index.ts'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

const declared = (rule: object) =>
  JSON.stringify({ collection: 'own', store: 'relational', schema: {}, access: { user: rule } })
const config = JSON.stringify({ secrets: ['NOPE', 'NADA'] })
const secretsMissing = ['NOPE', 'NADA'].map((name) => `The workspace has no secret \`${name}\`. Runs fail`)
/** Two tasks that nothing reaches. */
const FLOW = `document: { dsl: '1.0.3', namespace: test, name: warned, version: '1.0.0' }
do:
  - a:
      do:
        - b: { set: { x: 1 }, then: exit }
        - c: { set: { x: 2 } }
  - d: { set: { x: 3 }, then: end }
  - e: { set: { x: 4 } }
`
const unreachable = ['warned.yaml:6:11 warning task_unreachable', 'warned.yaml:8:5 warning task_unreachable']

interface Command {
  /** The operations whose answers it shows. */
  readonly of: readonly string[]
  readonly args: readonly string[]
  /** What its file has. */
  readonly text: string
  readonly warnings: readonly string[]
}

const COMMANDS: readonly Command[] = [
  {
    ...{ of: ['service.configure'], args: ['service', 'set', '@open.yaml'] },
    text: 'anon: { collections: read }',
    warnings: ['warning: /anon/collections: Every anon key'],
  },
  {
    ...{ of: ['schema.create'], args: ['schema', 'apply', 'own.json'] },
    text: declared({ read: true, delete: true }),
    warnings: ['warning: /access/user/read: Every user', 'warning: /access/user/delete: Every user'],
  },
  {
    ...{ of: ['schema.update'], args: ['schema', 'update', 'own.json'] },
    text: declared({ read: true, update: true }),
    warnings: ['warning: /access/user/read: Every user', 'warning: /access/user/update: Every user'],
  },
  {
    ...{ of: ['function.create'], args: ['fn', 'deploy', 'hi.ts', '--config', config] },
    ...{ text: 'export default () => 1\n', warnings: secretsMissing },
  },
  {
    ...{ of: ['flow.validate'], args: ['flow', 'validate', 'warned.yaml'] },
    ...{ text: FLOW, warnings: unreachable },
  },
  {
    ...{ of: ['flow.create', 'flow_version.create'], args: ['flow', 'publish', 'warned.yaml'] },
    ...{ text: FLOW, warnings: unreachable },
  },
  // The latest version has the same source, so that only the draft is written.
  {
    ...{ of: ['flow.update'], args: ['flow', 'publish', 'warned.yaml'] },
    ...{ text: FLOW, warnings: unreachable },
  },
]

/** Answers with warnings that no command asks for: `fn deploy` configures. */
const WITHOUT_COMMAND = ['function.configure']

test('commands: each operation that changes or checks and has warnings is asked for by one', () => {
  const warning = OPERATIONS.filter(
    ({ http, output }) => http.method !== 'GET' && JSON.stringify(output).includes('"warnings":'),
  )
  const covered = [...COMMANDS.flatMap(({ of }) => of), ...WITHOUT_COMMAND]
  expect(covered.toSorted()).toEqual(warning.map(({ name }) => name).toSorted())
})

test('commands whose answer has warnings: each warning is on stderr once, and the exit code is 0', async () => {
  const workspace = await createTestWorkspace()
  const dir = await mkdtemp(join(tmpdir(), 'tenon-warnings-'))
  try {
    for (const { of, args, text, warnings } of COMMANDS) {
      await writeFile(join(dir, args[2]?.replace(/^@/, '') ?? ''), text)
      const { code, stderr } = await runCommand([...args], { env: operatorEnv(workspace), callerDir: dir })
      const seen = warnings.map((warning) => stderr.split(warning).length - 1)
      expect([of, code, seen], stderr).toEqual([of, 0, warnings.map(() => 1)])
    }
  } finally {
    await rm(dir, { recursive: true })
  }
})
