/** `tenon`: one verb a file. Everything but `up` and `doctor` speaks the public API only. */

import { Command } from 'commander'
import { createKey, createTenant } from './admin.ts'
import { collectionVerbs } from './collection.ts'
import { eventVerbs } from './event.ts'
import * as flow from './flow.ts'
import * as fn from './fn.ts'
import * as mcp from './mcp.ts'
import { objectVerbs } from './object.ts'
import * as schema from './schema.ts'
import { operatorToken, readSettings } from './settings.ts'
import { verb } from './verb.ts'
import { workspaceVerbs } from './workspace.ts'

// Said once in docs/decisions; said by the library at each start of each process otherwise.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true'

const program = new Command('tenon').description('One backend for many tenants.').showHelpAfterError()

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
  .description('make the demo tenant at TENON_URL, run its first flow, print its keys')
  .action(verb(async () => (await import('./demo.ts')).printDemo()))

program
  .command('build <folder>', { hidden: true })
  .description('write the packed processes and the workflow bundle, for an image')
  .action(verb(async (folder) => (await import('./host/build.ts')).exportBuild(folder)))

program
  .command('doctor')
  .description('check Node, ports, each server, and the roles of the database')
  .action(verb(async () => (await import('./host/doctor.ts')).doctor()))

program
  .command('token')
  .description('print an operator access token, alone on stdout')
  .action(
    verb(async () => {
      process.stdout.write(`${await operatorToken(await readSettings())}\n`)
      return 0
    }),
  )

const tenant = program.command('tenant').description('tenants')
tenant
  .command('create')
  .requiredOption('--name <name>')
  .requiredOption('--slug <slug>')
  .action(verb(createTenant))

const key = program.command('key').description('API keys')
key
  .command('create')
  .requiredOption('--kind <kind>', 'anon or service')
  .option('--name <name>', 'what it is for', 'made by tenon key create')
  .option('--workspace <id>', 'default: TENON_WORKSPACE_ID')
  .action(verb(createKey))

program
  .command('schema')
  .description('declared collections')
  .command('apply <file>')
  .description(
    'declare what a JSON file says: {collection, store, schema, mode?, access?}, or a list of them',
  )
  .option('--workspace <id>', 'default: TENON_WORKSPACE_ID')
  .action(verb(schema.apply))

const flows = program.command('flow').description('flows')
const workspaceOption = ['--workspace <id>', 'default: TENON_WORKSPACE_ID'] as const
flows
  .command('validate <file>')
  .option(...workspaceOption)
  .action(verb(flow.validate))
flows
  .command('publish <file>')
  .option(...workspaceOption)
  .action(verb(flow.publish))
flows
  .command('run <flow>')
  .option(...workspaceOption)
  .option('--input <json>', 'input of the run', '{}')
  .action(verb(flow.run))
flows
  .command('watch <execution>')
  .option(...workspaceOption)
  .action(verb(flow.watch))

const servers = program.command('mcp').description('hosted MCP servers')
servers
  .command('publish <server>')
  .description('create it where it is missing, curate and publish it')
  .option(...workspaceOption)
  .option('--tools <file>', 'JSON, as PUT …/curation takes it; default: all that only reads')
  .option('--writes', 'without a file: what writes as well')
  .action(verb(mcp.publish))
servers
  .command('call <server> <tool>')
  .option(...workspaceOption)
  .option('--arguments <json>', 'arguments of the tool', '{}')
  .action(verb(mcp.callTool))
servers
  .command('token <server>')
  .description('print an access token for it, alone on stdout')
  .option(...workspaceOption)
  .option('--scope <scopes>', 'space-separated; default: what only reads')
  .action(verb(mcp.token))
collectionVerbs(program)
eventVerbs(program)
objectVerbs(program)
workspaceVerbs(program)
const functions = program.command('fn').description('functions')
functions
  .command('deploy <file>')
  .description('deploy a TypeScript file; a name that is there gets its next version')
  .option('--name <name>', 'default: the name of the file')
  .option(...workspaceOption)
  .action(verb(fn.deploy))
functions
  .command('invoke <name>')
  .description('invoke a function with TENON_SERVICE_KEY and print its result')
  .option('--input <json>', 'what it is called with', '{}')
  .action(verb(fn.invoke))

program
  .command('reference', { hidden: true })
  .description('write docs/reference from the code')
  .option('--check', 'write nothing; fail where it differs')
  .action(verb(async (options) => (await import('./host/reference.ts')).reference(options)))

await program.parseAsync()
