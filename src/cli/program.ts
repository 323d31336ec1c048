/** The commands of `tenon`, as its help lists them. Only those of stack/ use anything but the public API. */

import { Command, type Option } from 'commander'
import project from '../../package.json' with { type: 'json' }
import { accountVerbs } from './accounts/account.ts'
import { loginVerbs } from './accounts/login.ts'
import { oauthClientVerbs } from './accounts/oauth-client.ts'
import { sessionVerbs } from './accounts/session.ts'
import { signInPolicyVerbs } from './accounts/sign-in-policy.ts'
import { userVerbs } from './accounts/user.ts'
import { approvalVerbs } from './approvals.ts'
import { archiveVerbs } from './archives.ts'
import { auditVerbs } from './audit.ts'
import { backupVerbs, restoreVerbs } from './backup/verbs.ts'
import { collectionVerbs, eventVerbs } from './collection.ts'
import { flowVerbs } from './flow.ts'
import { functionVerbs } from './fn.ts'
import { keyVerbs } from './key.ts'
import { mcpVerbs } from './mcp.ts'
import { objectVerbs } from './objects/object.ts'
import { operationVerbs } from './operations/operation.ts'
import { projectVerbs } from './project/project.ts'
import { schemaVerbs } from './schema.ts'
import { forgetCommand } from './settings.ts'
import type { MasterKeyOptions } from './stack/master-key.ts'
import type { UpOptions } from './stack/up.ts'
import { quotaVerbs } from './tenants/quota.ts'
import { serviceVerbs } from './tenants/service.ts'
import { tenantVerbs, workspaceVerbs } from './tenants/tenant.ts'
import { traceVerbs } from './trace.ts'
import { triggerVerbs } from './triggers.ts'
import { typesVerb } from './types/types.ts'
import { addVerb, type Flag } from './verb.ts'

const VERBS = [
  loginVerbs,
  tenantVerbs,
  workspaceVerbs,
  operationVerbs,
  accountVerbs,
  signInPolicyVerbs,
  sessionVerbs,
  oauthClientVerbs,
  keyVerbs,
  userVerbs,
  archiveVerbs,
  quotaVerbs,
  serviceVerbs,
  auditVerbs,
  schemaVerbs,
  typesVerb,
  collectionVerbs,
  objectVerbs,
  eventVerbs,
  functionVerbs,
  flowVerbs,
  triggerVerbs,
  approvalVerbs,
  mcpVerbs,
  traceVerbs,
  projectVerbs,
]

export function createProgram(): Command {
  const program = new Command('tenon')
    .description('One backend for many tenants.')
    .version(project.version, '--version', 'Print the version.')
    .option('--quiet', 'Do not print workspace, role and platform on stderr.')
    .helpOption('-h, --help', 'Show the help of a command.')
    .helpCommand('help [command]', 'Show the help of a command.')
    .configureHelp({ optionDescription })
    .showHelpAfterError()
    .hook('preAction', (command) => {
      forgetCommand()
      if (command.opts<{ quiet?: boolean }>().quiet) process.env['TENON_QUIET'] = '1'
    })

  platformVerbs(program)
  for (const verbs of VERBS) verbs(program)
  return program
}

/** The description of an option as the help prints it, with the default of an option that takes a value. */
function optionDescription({ description, required, optional, defaultValue }: Option): string {
  const isShown = defaultValue !== undefined && (required || optional)
  return isShown ? `${description} Default: ${defaultValue}.` : description
}

/** A download or the build of a start that has failed may still be under way, and would keep the process. */
async function upThenExit(options: UpOptions): Promise<number> {
  const { up } = await import('./stack/up.ts')
  // After the verb has printed the error and set the exit code.
  return up(options).finally(() => setImmediate(() => process.exit()))
}

/** Verbs that start, migrate or check a platform. */
function platformVerbs(program: Command): void {
  addVerb(program, 'up', 'Start the platform and keep it running (npm start).', upThenExit, [
    ['--once', 'Stop the platform after the start is complete.'],
    ['--ephemeral', 'Use a temporary folder, and delete all data at the end.'],
    ['--port <port>', 'Preferred port of the API.', '8787'],
    ['--no-demo', 'Do not create the demo tenant, and do not call each service once.'],
    ['--allow-loopback', 'Let flows call every port of this machine. For development only.'],
  ])
  addVerb(
    program,
    'migrate',
    'Migrate the database of DATABASE_URL to this version.',
    async ({ check, json }: { check?: true; json?: true }) => {
      const { checkMigration, migrateFromEnvironment } = await import('./stack/migrate.ts')
      return check ? checkMigration({ ...(json && { json }) }) : migrateFromEnvironment()
    },
    [
      [
        '--check',
        'Say what it would do, which locks it takes, and what this version refuses. Change nothing.',
      ],
      ['--json', 'Print the result of --check as JSON.'],
    ],
  )
  addVerb(
    program,
    'demo',
    'Create the demo tenant at TENON_URL, call each service once if the tenant is new, and print its keys.',
    async () => (await import('./demo/index.ts')).printDemo(),
  )
  addVerb(
    program,
    'doctor',
    'Check Node, ports, each server, and the roles of the database.',
    async ({ deep }: { deep?: true }) => (await import('./stack/doctor.ts')).doctor(deep),
    [['--deep', 'Compare executions and runs with Temporal, and objects with the object store, too.']],
  )
  masterKeyVerbs(program)
  backupVerbs(program)
  restoreVerbs(program)
}

function masterKeyVerbs(program: Command): void {
  const masterKey = program.command('master-key').description('Replace the master key of the installation.')
  const load = () => import('./stack/master-key.ts')
  const json: Flag = ['--json', 'Print the result as JSON.']
  addVerb(
    masterKey,
    'new',
    'Print a new master key, alone on stdout.',
    async (options: MasterKeyOptions) => (await load()).printNewKey(options),
    [json],
  )
  addVerb(
    masterKey,
    'status',
    'Count the values that depend on each master key. Needs DATABASE_URL and TENON_MASTER_KEY.',
    async (options: MasterKeyOptions) => (await load()).printStatus(options),
    [json],
  )
  addVerb(
    masterKey,
    'rotate',
    'Encrypt all values under the first key of TENON_MASTER_KEY, while the platform runs. May be repeated.',
    async (options: MasterKeyOptions) => (await load()).rotate(options),
    [['--dry-run', 'Open each value, and change nothing.'], json],
  )
}
