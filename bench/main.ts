/** Runs a benchmark: `npm run bench -- <name>`. Every figure in the documentation comes from one of them. */

import { auth } from './auth.ts'
import { changes } from './changes.ts'
import { client } from './client.ts'
import { rules } from './collections/rules.ts'
import { collections } from './collections.ts'
import { expressions } from './expressions.ts'
import { flows } from './flows.ts'
import { flowsDsl } from './flows-dsl.ts'
import { functionProcesses } from './function-processes.ts'
import { functions } from './functions.ts'
import { infrastructure } from './infrastructure.ts'
import { installation } from './installation.ts'
import { lifecycle } from './lifecycle.ts'
import { listen } from './listen.ts'
import { lostConnections } from './measure.ts'
import { ndjson } from './ndjson.ts'
import { objects } from './objects.ts'
import { relations } from './relations.ts'
import { smoke } from './smoke.ts'
import { surface } from './surface.ts'

const BENCHES: Readonly<Record<string, (rest: readonly string[]) => Promise<void>>> = {
  smoke,
  auth,
  surface,
  changes,
  client,
  collections,
  relations,
  rules,
  ndjson,
  objects,
  expressions,
  'flows-dsl': flowsDsl,
  flows,
  functions,
  'function-processes': functionProcesses,
  lifecycle,
  listen,
  installation,
  infrastructure,
  mcp: () => surface(['mcp']),
}

const name = process.argv[2] ?? ''
const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined
if (bench === undefined) {
  process.stderr.write(`npm run bench -- ${Object.keys(BENCHES).join(' | ')}\n`)
  process.exit(1)
}
await bench(process.argv.slice(3))
if (lostConnections() > 0)
  process.stdout.write(`\n${lostConnections()} connections were lost; their calls are in no figure.\n`)
