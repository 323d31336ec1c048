/** `tenon`: one verb a file. Everything but `up` and `doctor` speaks the public API only. */

import { Command } from 'commander'
import { adminVerbs } from './admin.ts'
import { collectionVerbs } from './collection.ts'
import { eventVerbs } from './event.ts'
import { flowVerbs } from './flow.ts'
import { functionVerbs } from './fn.ts'
import { keyVerbs } from './key.ts'
import { loginVerbs } from './login.ts'
import { mcpVerbs } from './mcp.ts'
import { objectVerbs } from './object.ts'
import { schemaVerbs } from './schema.ts'
import { verb } from './verb.ts'
import { workspaceVerbs } from './workspace.ts'

const program = new Command('tenon')
  .description('One backend for many tenants.')
  .option('--quiet', 'do not say on stderr which workspace, role and platform are used')
  .showHelpAfterError()
  .hook('preAction', (command) => {
    if (command.opts<{ quiet?: boolean }>().quiet) process.env['TENON_QUIET'] = '1'
  })

program
  .command('up')
  .description('start the whole platform and keep it running (npm start)')
  .option('--once', 'end after the first flow has run')
  .option('--ephemeral', 'keep nothing: data in a temporary folder')
  .option('--port <port>', 'preferred port of the API', '8787')
  .action(verb(async (options) => (await import('./host/up.ts')).up(options)))

program
  .command('migrate')
  .description('bring the database of DATABASE_URL to this version')
  .action(verb(async () => (await import('./host/migrate.ts')).migrateFromEnvironment()))

program
  .command('demo')
  .description('make the demo tenant at TENON_URL, use each service once, print its keys')
  .action(verb(async () => (await import('./demo/index.ts')).printDemo()))

program
  .command('build <folder>', { hidden: true })
  .description('write the packed processes and the workflow bundle, for an image')
  .action(verb(async (folder) => (await import('./host/build.ts')).exportBuild(folder)))

program
  .command('certificate <file>', { hidden: true })
  .description('make the certificate of the object store, for a container')
  .action(verb(async (file) => (await import('./host/containers.ts')).makeCertificate(file)))

program
  .command('temporal-ui', { hidden: true })
  .description('serve the Temporal UI through the proxy that checks host names, in a container')
  .action(verb(async () => (await import('./host/containers.ts')).serveTemporalUi()))

program
  .command('doctor')
  .description('check Node, ports, each server, and the roles of the database')
  .action(verb(async () => (await import('./host/doctor.ts')).doctor()))

for (const verbs of [
  adminVerbs,
  loginVerbs,
  keyVerbs,
  workspaceVerbs,
  schemaVerbs,
  collectionVerbs,
  objectVerbs,
  eventVerbs,
  functionVerbs,
  flowVerbs,
  mcpVerbs,
])
  verbs(program)

program
  .command('reference', { hidden: true })
  .description('write docs/reference from the code')
  .option('--check', 'write nothing; fail where it differs')
  .action(verb(async (options) => (await import('./host/reference.ts')).reference(options)))

await program.parseAsync()
