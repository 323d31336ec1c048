/** `tenon`: the list of verbs. Only those of stack/ use anything but the public API. */

import { Command } from 'commander'
import { adminVerbs, workspaceVerbs } from './admin.ts'
import { approvalVerbs } from './approvals.ts'
import { collectionVerbs, eventVerbs, objectVerbs } from './collection.ts'
import { egressVerbs } from './egress.ts'
import { flowVerbs } from './flow.ts'
import { functionVerbs } from './fn.ts'
import { keyVerbs } from './key.ts'
import { loginVerbs } from './login.ts'
import { mcpVerbs } from './mcp.ts'
import { schemaVerbs } from './schema.ts'
import type { UpOptions } from './stack/up.ts'
import { triggerVerbs } from './triggers.ts'
import { addVerb, type Flag } from './verb.ts'

// A reader such as `head` may close the pipe early; further output has no reader, which is no error.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })

const program = new Command('tenon')
  .description('One backend for many tenants.')
  .option('--quiet', 'do not print workspace, role and platform on stderr')
  .showHelpAfterError()
  .hook('preAction', (command) => {
    if (command.opts<{ quiet?: boolean }>().quiet) process.env['TENON_QUIET'] = '1'
  })

addVerb(
  program,
  'up',
  'start the whole platform and keep it running (npm start)',
  async (options: UpOptions) => (await import('./stack/up.ts')).up(options),
  [
    ['--once', 'stop after the first flow'],
    ['--ephemeral', 'use a temporary folder, and delete all data at the end'],
    ['--port <port>', 'preferred port of the API', '8787'],
    ['--allow-loopback', 'let flows call every port of this machine; for development only'],
  ],
)
addVerb(program, 'migrate', 'migrate the database of DATABASE_URL to this version', async () =>
  (await import('./stack/containers.ts')).migrateFromEnvironment(),
)
addVerb(
  program,
  'demo',
  'create the demo tenant at TENON_URL, use each service once, and print its keys',
  async () => (await import('./demo/index.ts')).printDemo(),
)
addVerb(program, 'doctor', 'check Node, ports, each server, and the roles of the database', async () =>
  (await import('./stack/doctor.ts')).doctor(),
)

for (const verbs of [
  adminVerbs,
  loginVerbs,
  keyVerbs,
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
])
  verbs(program)

/** Adds a verb for images, containers or the documentation, which the help does not list. */
function addHiddenVerb<A extends unknown[]>(
  usage: string,
  work: (...args: A) => Promise<number>,
  flags: readonly Flag[] = [],
) {
  addVerb(program, usage, '', work, flags, { hidden: true })
}

// Writes the bundles of an image into a folder.
addHiddenVerb('build <folder>', async (folder: string) =>
  (await import('./stack/build.ts')).exportBuild(folder),
)
// Creates the certificate of the object store.
addHiddenVerb('certificate <file>', async (file: string) =>
  (await import('./stack/containers.ts')).makeCertificate(file),
)
// Serves the Temporal UI through the proxy that checks host names.
addHiddenVerb('temporal-ui', async () => (await import('./stack/containers.ts')).serveTemporalUi())
addHiddenVerb(
  'reference',
  async (options: { check?: boolean }) => (await import('./stack/reference.ts')).reference(options),
  [['--check', 'only check it']],
)

await program.parseAsync()
