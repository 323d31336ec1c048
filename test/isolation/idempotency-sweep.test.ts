/** Sweeps idempotency: each operation that takes a key is sent, loses its stored reply, and is sent again. */

import { beforeAll, describe, expect, test } from 'vitest'
import { acceptsKey } from '../../src/api/idempotency.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { replayed, send, simulateCrash } from '../support/clients/idempotency.ts'
import { createTestWorkspaceWithStorage as createTestWorkspace, unique } from '../support/fixtures/tenants.ts'
import { createSweepResources, ROWS, type World } from './sweep-rows.ts'
import { RUN_COMMANDS } from './sweep-rows-flows.ts'

let world: World
beforeAll(async () => {
  world = await createSweepResources(await createTestWorkspace())
})

/** Operations without a predetermined id; they run twice if the process dies between effect and reply (decision 13). */
const DOUBLED = ['flow_version.create', 'function.create', 'mcp_version.create']

/**
 * Refused here: the workspace has its one MCP server, the execution has ended, the account was never accepted, and
 * the MCP version needs no approval.
 */
const REFUSED = [
  'mcp_server.create',
  'mcp_version.approve',
  'account.reset',
  'account.confirm',
  ...RUN_COMMANDS,
]

/** Their output is kept in the transaction of the effect. */
const KEPT = ['collection.create', 'collection.patch', 'collection.batch', 'batch.run']

/** The path parameters of `path`, by name; a version is a number, as its operation gets it. */
function boundIn(template: string, path: string): Record<string, string | number> {
  const pattern = template.replaceAll(/\{(\w+)\*?\}/g, '(?<$1>[^/]+)')
  const groups = new RegExp(`^${pattern}$`).exec(path)?.groups ?? {}
  const values = Object.entries(groups).map(([name, text]) => [
    name,
    name === 'version' ? Number(text) : text,
  ])
  return Object.fromEntries(values)
}

/** The id of the created resource. */
const made = (body: Record<string, unknown> | string) =>
  typeof body === 'string' ? body : (body['id'] ?? body['client_id'] ?? body['run_id'])

/** Those that PATCH come last: some close what others need. */
const KEYED = OPERATIONS.filter(acceptsKey).sort((a, b) => b.http.method.localeCompare(a.http.method))

describe.each(KEYED.map((operation) => [operation.name, operation] as const))(
  '%s with an idempotency key',
  (name, operation) => {
    test('repeated after a lost reply: created once or reported as made; later repeats return the stored reply', async () => {
      const { workspace } = world
      const as = operation.domain === 'data_access' ? workspace.service : workspace.operator
      const row = ROWS[name]
      const [key, path, body] = [unique('k'), row?.path(world) ?? '', row?.body?.(world)]
      const first = await send(operation.http.method, as, key, body, path)
      expect([name, first.status < 300 || REFUSED.includes(name)]).toEqual([name, true])
      await simulateCrash(workspace, { ...boundIn(operation.http.path, path), ...(body as object) })
      const again = await send(operation.http.method, as, key, body, path)
      // Documents are kept with their reply, so it is sent again.
      expect([name, replayed(again)]).toEqual([name, KEPT.includes(name) ? 'true' : null])
      if (again.status < 300 && !DOUBLED.includes(name))
        expect([name, made(again.body)]).toEqual([name, made(first.body)])
      else if (!DOUBLED.includes(name))
        expect([name, again.status === 409 || again.status === 429]).toEqual([name, true])
      if (again.status === 429) return
      const third = await send(operation.http.method, as, key, body, path)
      // Later repeats get the same refusal.
      if (again.body['code'] === 'idempotency_reply_lost')
        return expect([third.status, third.body['code']]).toEqual([409, 'idempotency_reply_lost'])
      expect([third.status, replayed(third), third.body]).toEqual([again.status, 'true', again.body])
    })
  },
)
