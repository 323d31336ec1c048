/**
 * Drives the MCP servers with clients of others, as their users do: the official SDKs for TypeScript and Python sign a
 * person in, ask for further scopes, refresh tokens, and use tools, resources, prompts and long runs; the Inspector checks the schemas of
 * all tools. With `hosts`, it sends the requests of hosts of agents instead. The exit code is 0 only if each client succeeds. A further argument limits this to the clients whose names contain it.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostChecks } from './hosts.ts'
import { inspectorChecks } from './inspector.ts'
import { pythonChecks } from './python.ts'
import { typescriptChecks } from './typescript.ts'
import { type Check, openWorld } from './world.ts'

const folder = await mkdtemp(join(tmpdir(), 'tenon-mcp-clients-'))
const world = await openWorld(folder)
try {
  const [, , what, wanted = ''] = process.argv
  const all: Check[] =
    what === 'hosts'
      ? hostChecks(world)
      : [...typescriptChecks(world), ...pythonChecks(world, folder), ...inspectorChecks(world, folder)]
  const checks = all.filter(({ name }) => name.includes(wanted))
  let failed = 0
  for (const { name, run } of checks) {
    const fault = await run().then(
      () => undefined,
      (error: Error) => error.stack ?? error.message,
    )
    process.stdout.write(fault === undefined ? `ok     ${name}\n` : `FAILED ${name}\n${fault}\n`)
    if (fault !== undefined) failed += 1
  }
  process.stdout.write(`${checks.length - failed} passed, ${failed} failed\n`)
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  await world.close()
  await rm(folder, { recursive: true, force: true })
}
