/** `tenon`: the list of verbs. Only those of host/ use anything but the public API. */

import { Command } from 'commander'
import { adminVerbs, workspaceVerbs } from './admin.ts'
import { collectionVerbs, eventVerbs, objectVerbs } from './collection.ts'
import { flowVerbs } from './flow.ts'
import { functionVerbs } from './fn.ts'
import { keyVerbs } from './key.ts'
import { loginVerbs } from './login.ts'
import { mcpVerbs } from './mcp.ts'
import { schemaVerbs } from './schema.ts'
import { verb } from './verb.ts'

const program = new Command('tenon')
  .description('One backend for many tenants.')
  .option('--quiet', 'do not print workspace, role and platform on stderr')
  .showHelpAfterError()
  .hook('preAction', (command) => {
    if (command.opts<{ quiet?: boolean }>().quiet) process.env['TENON_QUIET'] = '1'
  })

program
  .command('up')
  .description('start the whole platform and keep it running (npm start)')
  .option('--once', 'stop after the first flow')
  .option('--ephemeral', 'use a temporary folder, and delete all data at the end')
  .option('--port <port>', 'preferred port of the API', '8787')
  .action(verb(async (options) => (await import('./stack/up.ts')).up(options)))

program
  .command('migrate')
  .description('migrate the database of DATABASE_URL to this version')
  .action(verb(async () => (await import('./stack/containers.ts')).migrateFromEnvironment()))

program
  .command('demo')
  .description('create the demo tenant at TENON_URL, use each service once, and print its keys')
  .action(verb(async () => (await import('./demo/index.ts')).printDemo()))

program
  .command('build <folder>', { hidden: true })
  .description('write the bundles of an image into a folder')
  .action(verb(async (folder) => (await import('./stack/build.ts')).exportBuild(folder)))

program
  .command('certificate <file>', { hidden: true })
  .description('create the certificate of the object store, for a container')
  .action(verb(async (file) => (await import('./stack/containers.ts')).makeCertificate(file)))

program
  .command('temporal-ui', { hidden: true })
  .description('serve the Temporal UI through the proxy that checks host names, in a container')
  .action(verb(async () => (await import('./stack/containers.ts')).serveTemporalUi()))

program
  .command('doctor')
  .description('check Node, ports, each server, and the roles of the database')
  .action(verb(async () => (await import('./stack/doctor.ts')).doctor()))

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
  .description('generate docs/reference')
  .option('--check', 'only check it')
  .action(verb(async (options) => (await import('./stack/reference.ts')).reference(options)))

await program.parseAsync()
