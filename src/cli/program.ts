/** The commands of `tenon`, as its help lists them. Only those of stack/ use anything but the public API. */

import { Command } from 'commander'
import project from '../../package.json' with { type: 'json' }
import { accountVerbs } from './accounts/account.ts'
import { loginVerbs } from './accounts/login.ts'
import { adminVerbs, workspaceVerbs } from './admin.ts'
import { approvalVerbs } from './approvals.ts'
import { collectionVerbs, eventVerbs, objectVerbs } from './collection.ts'
import { egressVerbs } from './egress.ts'
import { flowVerbs } from './flow.ts'
import { functionVerbs } from './fn.ts'
import { keyVerbs } from './key.ts'
import { mcpVerbs } from './mcp.ts'
import { schemaVerbs } from './schema.ts'
import { forgetAnnounced } from './settings.ts'
import type { UpOptions } from './stack/up.ts'
import { triggerVerbs } from './triggers.ts'
import { userVerbs } from './users.ts'
import { addVerb } from './verb.ts'

const VERBS = [
  adminVerbs,
  loginVerbs,
  accountVerbs,
  keyVerbs,
  userVerbs,
  workspaceVerbs,
  egressVerbs,
  schemaVerbs,
  collectionVerbs,
  objectVerbs,
  eventVerbs,
  functionVerbs,
  flowVerbs,
  triggerVerbs,
  approvalVerbs,
  mcpVerbs,
]

export function createProgram(): Command {
  const program = new Command('tenon')
    .description('One backend for many tenants.')
    .version(project.version, '--version', 'print the version')
    .option('--quiet', 'do not print workspace, role and platform on stderr')
    .showHelpAfterError()
    .hook('preAction', (command) => {
      forgetAnnounced()
      if (command.opts<{ quiet?: boolean }>().quiet) process.env['TENON_QUIET'] = '1'
    })

  platformVerbs(program)
  for (const verbs of VERBS) verbs(program)
  return program
}

/** A download or the build of a start that has failed may still be under way, and would keep the process. */
async function upThenExit(options: UpOptions): Promise<number> {
  const { up } = await import('./stack/up.ts')
  // After the verb has printed the error and set the exit code.
  return up(options).finally(() => setImmediate(() => process.exit()))
}

/** Verbs that start, migrate or check a platform. */
function platformVerbs(program: Command): void {
  addVerb(program, 'up', 'start the whole platform and keep it running (npm start)', upThenExit, [
    ['--once', 'stop when everything has started'],
    ['--ephemeral', 'use a temporary folder, and delete all data at the end'],
    ['--port <port>', 'preferred port of the API', '8787'],
    ['--no-demo', 'create no demo tenant, and use no service'],
    ['--allow-loopback', 'let flows call every port of this machine; for development only'],
  ])
  addVerb(program, 'migrate', 'migrate the database of DATABASE_URL to this version', async () =>
    (await import('./stack/containers.ts')).migrateFromEnvironment(),
  )
  addVerb(
    program,
    'demo',
    'create the demo tenant at TENON_URL and use each service once, if it is new, and print its keys',
    async () => (await import('./demo/index.ts')).printDemo(),
  )
  addVerb(
    program,
    'doctor',
    'check Node, ports, each server, and the roles of the database',
    async ({ deep }: { deep?: true }) => (await import('./stack/doctor.ts')).doctor(deep),
    [['--deep', 'compare the records of executions and runs with Temporal, too']],
  )
}
